# How tests register. scripts/run-tests runs ctest and counts: a gtest program counts by its cases (it leaves an XML
# report where the GTEST_OUTPUT below says), everything else counts as one.
#
# tiercel_gtest(NAME [LABELS label...] [TIMEOUT s])           registers the existing target NAME as ctest entry NAME
# tiercel_test(NAME SOURCES a.cc DEPS room... [LIBS external...])  makes one first: tests that cross rooms
# tiercel_script_test(NAME script [args...])                  one ctest entry; exit code 77 = skipped, the last line says why
#
# Targets: tiercel_tests builds every test program, tiercel_benches every benchmark.

if(TIERCEL_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
  add_custom_target(tiercel_tests)
  add_custom_target(tiercel_benches)
endif()

function(tiercel_gtest name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  target_link_libraries(${name} PRIVATE GTest::gtest GTest::gmock GTest::gtest_main)
  # What is tested keeps its optimisation; the tests themselves are compiled for the sake of being compiled soon.
  if(TIERCEL_SANITIZE)
    target_compile_options(${name} PRIVATE -O0)
  else()
    target_compile_options(${name} PRIVATE -O1)
  endif()
  target_compile_definitions(${name} PRIVATE TIERCEL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_dependencies(tiercel_tests ${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} ENVIRONMENT
    "GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/gtest/${name}.xml;UBSAN_OPTIONS=print_stacktrace=1")
endfunction()

function(tiercel_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;DEPS;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE tiercel_options ${arg_LIBS})
  foreach(dep IN LISTS arg_DEPS)
    target_link_libraries(${name} PRIVATE tiercel_${dep})
  endforeach()
  tiercel_gtest(${name} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT})
endfunction()

function(tiercel_script_test name script)
  add_test(NAME ${name} COMMAND ${script} ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS house TIMEOUT 600 SKIP_RETURN_CODE 77 ENVIRONMENT
    "TIERCEL_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};TIERCEL_BUILD=${PROJECT_BINARY_DIR}")
endfunction()
