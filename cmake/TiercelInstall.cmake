# What a stranger gets: the public headers, one static library, a CMake package (tiercel::tiercel) and a pkg-config file.
#
# The library is all rooms that the door (include/tiercel) stands on, in one archive; what it needs of the system are
# Debian packages that both package files name.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
find_package(fmt REQUIRED)
find_package(OpenSSL REQUIRED)

set(tiercel_rooms base io kv codec tier cache)
add_library(tiercel_library STATIC)
set_target_properties(tiercel_library PROPERTIES OUTPUT_NAME tiercel EXPORT_NAME tiercel LINKER_LANGUAGE CXX)
foreach(room IN LISTS tiercel_rooms)
  target_sources(tiercel_library PRIVATE $<TARGET_OBJECTS:tiercel_${room}>)
endforeach()
target_compile_features(tiercel_library PUBLIC cxx_std_20)
target_include_directories(tiercel_library PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(tiercel_library PUBLIC fmt::fmt OpenSSL::Crypto Threads::Threads uring)
add_library(tiercel::tiercel ALIAS tiercel_library)

set(config_directory ${CMAKE_INSTALL_LIBDIR}/cmake/tiercel)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tiercel-config.cmake.in tiercel-config.cmake
  INSTALL_DESTINATION ${config_directory})
write_basic_package_version_file(tiercel-config-version.cmake COMPATIBILITY SameMinorVersion)
configure_file(${CMAKE_CURRENT_LIST_DIR}/tiercel.pc.in tiercel.pc @ONLY)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tiercel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT development FILES_MATCHING PATTERN "*.hpp")
install(TARGETS tiercel_library EXPORT tiercel-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(EXPORT tiercel-targets NAMESPACE tiercel:: DESTINATION ${config_directory} COMPONENT development)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tiercel-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/tiercel-config-version.cmake
        DESTINATION ${config_directory} COMPONENT development)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tiercel.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
