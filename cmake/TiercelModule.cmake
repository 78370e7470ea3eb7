# tiercel_module(NAME SOURCES a.cc DEPS room LIBS external TESTS a_test.cc THREAD_TESTS b_test.cc BENCHES a_bench.cc)
#
# One call per room. It makes the static library tiercel_NAME, one test program NAME_test of all TESTS, another one
# NAME_threads_test of THREAD_TESTS (label NAME_threads: those that `make test` runs under TSan as well), and one
# benchmark program per entry of BENCHES, which ctest runs once with tiny input (TIERCEL_BENCH_TINY=1) so that it cannot
# rot. Sources are listed by name; scripts/layers fails on a file no list names.
# PRIVATE_LIBS stay out of the includes of other rooms; TEST_LIBS are for the test program alone.

function(tiercel_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;LIBS;PRIVATE_LIBS;TESTS;THREAD_TESTS;TEST_LIBS;BENCHES" ${ARGN})
  add_library(tiercel_${name} STATIC ${arg_SOURCES})
  target_link_libraries(tiercel_${name} PUBLIC tiercel_options ${arg_LIBS} PRIVATE ${arg_PRIVATE_LIBS})
  foreach(dep IN LISTS arg_DEPS)
    target_link_libraries(tiercel_${name} PUBLIC tiercel_${dep})
  endforeach()
  if(NOT TIERCEL_TESTS)
    return()
  endif()
  if(arg_TESTS)
    add_executable(${name}_test ${arg_TESTS})
    target_link_libraries(${name}_test PRIVATE tiercel_${name} ${arg_TEST_LIBS})
    tiercel_gtest(${name}_test LABELS ${name})
  endif()
  if(arg_THREAD_TESTS)
    add_executable(${name}_threads_test ${arg_THREAD_TESTS})
    target_link_libraries(${name}_threads_test PRIVATE tiercel_${name} ${arg_TEST_LIBS})
    tiercel_gtest(${name}_threads_test LABELS ${name}_threads)
  endif()
  foreach(bench IN LISTS arg_BENCHES)
    get_filename_component(bench_name ${bench} NAME_WE)
    add_executable(${bench_name} ${bench})
    target_link_libraries(${bench_name} PRIVATE tiercel_${name} benchmark::benchmark_main)
    add_dependencies(tiercel_benches ${bench_name})
    add_dependencies(tiercel_tests ${bench_name})
    add_test(NAME ${bench_name} COMMAND ${bench_name} --benchmark_min_time=0.001)
    set_tests_properties(${bench_name} PROPERTIES LABELS bench TIMEOUT 120 ENVIRONMENT TIERCEL_BENCH_TINY=1)
  endforeach()
endfunction()
