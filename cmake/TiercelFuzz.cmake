# tiercel_fuzz(NAME DEPS room...)   the target fuzz/NAME_fuzz.cc with the committed corpus fuzz/corpus/NAME
#
# With TIERCEL_FUZZ (preset fuzz, clang): the program NAME_fuzz, driven by libFuzzer.
# Otherwise: the program NAME_fuzz_replay, which runs the target over every file of the corpus, and the ctest entry
# fuzz_NAME, so that every compiler and every sanitizer replays what was ever found.

function(tiercel_fuzz name)
  cmake_parse_arguments(arg "" "" "DEPS;LIBS" ${ARGN})
  set(target ${name}_fuzz_replay)
  set(sources ${name}_fuzz.cc replay_main.cc)
  if(TIERCEL_FUZZ)
    set(target ${name}_fuzz)
    set(sources ${name}_fuzz.cc)
  endif()
  add_executable(${target} ${sources})
  target_link_libraries(${target} PRIVATE tiercel_options ${arg_LIBS})
  foreach(dep IN LISTS arg_DEPS)
    target_link_libraries(${target} PRIVATE tiercel_${dep})
  endforeach()
  if(TIERCEL_FUZZ)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    add_dependencies(tiercel_fuzzers ${target})
  else()
    add_dependencies(tiercel_tests ${target})
    add_test(NAME fuzz_${name} COMMAND ${target} ${PROJECT_SOURCE_DIR}/fuzz/corpus/${name})
    set_tests_properties(fuzz_${name} PROPERTIES LABELS fuzz TIMEOUT 120 ENVIRONMENT UBSAN_OPTIONS=print_stacktrace=1)
  endif()
endfunction()
