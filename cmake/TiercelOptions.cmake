# tiercel_options: what every target of ours compiles with. Flags stay off the global scope, so that a project that
# embeds Tiercel keeps its own.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

add_library(tiercel_options INTERFACE)
target_compile_features(tiercel_options INTERFACE cxx_std_20)
target_include_directories(tiercel_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_options(tiercel_options INTERFACE -fno-omit-frame-pointer)
if(TIERCEL_DEVELOPER)
  # Designated initialisers leave members at their defaults on purpose.
  target_compile_options(tiercel_options INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(tiercel_options INTERFACE -Wthread-safety)
elseif(TIERCEL_DEVELOPER)
  # -Wrestrict of g++ 12 accuses std::string's own operator+ (GCC bug 105651).
  target_compile_options(tiercel_options INTERFACE -Wshadow=local -Wno-restrict)
endif()
if(TIERCEL_SANITIZE)
  target_compile_options(tiercel_options INTERFACE -fsanitize=${TIERCEL_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(tiercel_options INTERFACE -fsanitize=${TIERCEL_SANITIZE})
endif()
if(TIERCEL_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "TIERCEL_FUZZ needs clang: cmake --preset fuzz")
  endif()
  target_compile_options(tiercel_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(TIERCEL_COVERAGE)
  target_compile_options(tiercel_options INTERFACE --coverage)
  target_link_options(tiercel_options INTERFACE --coverage)
endif()
