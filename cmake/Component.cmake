# SPDX-License-Identifier: Apache-2.0
# Headers that half of all sources include, and that change only with the system: read once for each set of options.
set(NEURON_COMMON_HEADERS <algorithm> <array> <atomic> <chrono> <condition_variable> <cstdint> <cstring> <deque> <functional> <map>
  <memory> <mutex> <optional> <set> <span> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>
  <boost/system/result.hpp> <fmt/core.h>)

# neuron_precompile(NAME HEADERS header... LINK target...): lets a target use precompiled common headers, and the named ones beside
# them, which are those of the targets behind LINK. Call it behind everything that sets options of the target. Targets of one kind, with the same options of their folder, share one.
function(neuron_precompile name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINK" ${ARGN})
  if(NOT NEURON_PRECOMPILE)
    return()
  endif()
  get_target_property(type ${name} TYPE)
  get_directory_property(folder_options COMPILE_OPTIONS)
  get_target_property(options ${name} COMPILE_OPTIONS)
  string(MD5 key "${type} ${folder_options} ${options} ${ARG_HEADERS}")
  string(SUBSTRING ${key} 0 8 key)
  set(shared precompiled_${key})
  if(NOT TARGET ${shared})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${shared}.cpp CONTENT "int main() {}\n")
    if(type STREQUAL EXECUTABLE)
      add_executable(${shared} EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/generated/${shared}.cpp)
      # No program for users, so not among them, where builds of before have put it.
      file(REMOVE ${CMAKE_BINARY_DIR}/bin/${shared})
      set_target_properties(${shared} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/generated)
    else()
      add_library(${shared} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/generated/${shared}.cpp)
    endif()
    if(options)
      target_compile_options(${shared} PRIVATE ${options})
    endif()
    # Targets that are linked define macros.
    target_link_libraries(${shared} PRIVATE Threads::Threads ${ARG_LINK})
    target_precompile_headers(${shared} PRIVATE ${NEURON_COMMON_HEADERS} ${ARG_HEADERS})
  endif()
  target_precompile_headers(${name} REUSE_FROM ${shared})
  # GCC forgets of a precompiled header which parts are of the system, and says what it finds there, here falsely.
  target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds$<SEMICOLON>-Wno-stringop-overflow$<SEMICOLON>-Wno-stringop-overread>)
endfunction()

# neuron_unite(NAME): the C++ sources of a target are compiled several at once, in the order of their names: what a header costs, above all
# one of templates, is then paid once for all of them. So two sources of one target may not give two things one name in one namespace.
# Sources with options of their own stay alone (CMake sees to it), and so do those that Highway compiles once for each kind of processor.
function(neuron_unite name)
  if(NEURON_UNITE LESS 2)
    return()
  endif()
  get_target_property(sources ${name} SOURCES)
  get_target_property(folder ${name} SOURCE_DIR)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
    if(source MATCHES "\\.c$")
      set_source_files_properties(${source} TARGET_DIRECTORY ${name} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    elseif(EXISTS ${source})
      file(STRINGS ${source} targets REGEX "^#include <hwy/foreach_target\\.h>" LIMIT_COUNT 1)
      if(targets)
        set_source_files_properties(${source} TARGET_DIRECTORY ${name} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
    endif()
  endforeach()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${NEURON_UNITE})
endfunction()

# neuron_component(NAME FOLDERS folder... LINK target... OPTIONS option... [SEPARATE]): a static library of every source in the folders
# (not below them). SEPARATE: each source is compiled alone, because they name things of their own alike. A folder without sources
# yields an interface library, so that a new part can be named before its first file exists.
function(neuron_component name)
  cmake_parse_arguments(ARG "SEPARATE" "" "FOLDERS;LINK;OPTIONS" ${ARGN})
  set(sources "")
  foreach(folder IN LISTS ARG_FOLDERS)
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.c ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC neuron_include ${ARG_LINK})
    target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
    if(NOT ARG_SEPARATE)
      neuron_unite(${name})
    endif()
    list(FILTER sources INCLUDE REGEX "\\.cpp$")
    if(sources)
      neuron_precompile(${name})
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE neuron_include ${ARG_LINK})
  endif()
endfunction()

# What all programs of tests are compiled and linked with.
function(neuron_use_googletest name)
  target_compile_definitions(${name} PRIVATE
    NEURON_SOURCE_DIR="${CMAKE_SOURCE_DIR}" NEURON_BUILD_DIR="${CMAKE_BINARY_DIR}")
  # Half of the time that a tree takes to build is that of its tests; what they test keeps its own options.
  if(NEURON_SANITIZE)
    target_compile_options(${name} PRIVATE -O0 ${NEURON_UNCOUNTED})
  else()
    target_compile_options(${name} PRIVATE -O0)
  endif()
  target_link_libraries(${name} PRIVATE test_support neuron_include GTest::gtest GTest::gmock GTest::gtest_main Threads::Threads)
endfunction()

# Seconds that the longest tests take on two cores. ctest begins these first, those that need both cores before all others, so that none of
# them is left to run alone at the end.
set(NEURON_LONG_TESTS matrix=300 simulator=280 published=150 precheck=75 unit_neuroncore=60 profile=50
  multi=45 operators=45 serve=35 unit_chip=30 unit_ccom_simulator=30 unit_ccom_progress=30 unit_ccom_api=30 launchers=25)
function(neuron_set_test_cost name) # [the name in the list, if it is another]
  list(APPEND ARGN ${name})
  list(GET ARGN 0 listed)
  foreach(long IN LISTS NEURON_LONG_TESTS)
    if(long MATCHES "^${listed}=([0-9]+)$")
      set_tests_properties(${name} PROPERTIES COST ${CMAKE_MATCH_1})
    endif()
  endforeach()
endfunction()

# neuron_test(NAME FOLDER... [SEPARATE] [SOURCES file...] [LINK target...] [NEEDS program...] [SLOW pattern] [PARTS number] [TIMEOUT seconds]
#   [PROPERTIES name value...]):
# one GoogleTest program of every *_test.cpp in the folders, which are relative to the calling CMakeLists.txt.
# SOURCES are compiled into it too. SEPARATE: each source is compiled alone, as one that chooses versions of the headers has to be.
# NEEDS are programs and libraries that the tests start or load: they are built first.
# Tests that match SLOW, a filter of GoogleTest, are NAME_slow with the label slow, which `make check` leaves out.
# PARTS: under the thread sanitizer the tests are divided among so many of ctest, NAME_part1 and so on, as one would be left to run alone.
# PROPERTIES are those of ctest.
function(neuron_test name)
  cmake_parse_arguments(ARG "SEPARATE" "TIMEOUT;SLOW;PARTS" "SOURCES;LINK;NEEDS;PROPERTIES" ${ARGN})
  set(sources ${ARG_SOURCES})
  foreach(folder IN LISTS ARG_UNPARSED_ARGUMENTS)
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.cpp)
    if(NOT found)
      message(FATAL_ERROR "${CMAKE_CURRENT_SOURCE_DIR}/${folder} holds no *_test.cpp, and the test program ${name} is made of them")
    endif()
    list(APPEND sources ${found})
  endforeach()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  # What computes takes up to twenty times as long there.
  if(NEURON_SANITIZE STREQUAL "thread")
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 3")
  endif()
  add_executable(${name} ${sources})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  neuron_use_googletest(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  if(NOT ARG_SEPARATE)
    neuron_unite(${name})
  endif()
  neuron_precompile(${name} HEADERS <gmock/gmock.h> <gtest/gtest.h> LINK GTest::gtest GTest::gmock)
  if(ARG_NEEDS)
    add_dependencies(${name} ${ARG_NEEDS})
  endif()
  if(ARG_PARTS AND NEURON_SANITIZE STREQUAL "thread")
    foreach(part RANGE 1 ${ARG_PARTS})
      math(EXPR index "${part} - 1")
      add_test(NAME ${name}_part${part} COMMAND ${name})
      set_tests_properties(${name}_part${part} PROPERTIES TIMEOUT ${ARG_TIMEOUT} ${ARG_PROPERTIES}
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_PARTS};GTEST_SHARD_INDEX=${index}")
      neuron_set_test_cost(${name}_part${part} ${name})
    endforeach()
    return()
  endif()
  # The lanes of the sanitizers have labels of their own.
  if(ARG_SLOW AND NOT NEURON_SANITIZE)
    add_test(NAME ${name} COMMAND ${name} --gtest_filter=-${ARG_SLOW})
    add_test(NAME ${name}_slow COMMAND ${name} --gtest_filter=${ARG_SLOW})
    set_tests_properties(${name}_slow PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS slow)
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} ${ARG_PROPERTIES})
  neuron_set_test_cost(${name})
endfunction()

# neuron_test_again(NAME TEST [ENVIRONMENT variable=value] [ARGUMENTS argument...]): the program TEST once more, otherwise.
function(neuron_test_again name test)
  cmake_parse_arguments(ARG "" "ENVIRONMENT" "ARGUMENTS" ${ARGN})
  add_test(NAME ${name} COMMAND ${test} ${ARG_ARGUMENTS})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 ENVIRONMENT "${ARG_ENVIRONMENT}")
  if(NEURON_SANITIZE)
    # The same memory is touched once more, by other arithmetic: in `make nightly`.
    set_tests_properties(${name} PROPERTIES LABELS long_sanitized)
  endif()
endfunction()

# neuron_test_script(NAME SCRIPT [TIMEOUT seconds]): a script of the calling folder, which is given the build folder.
function(neuron_test_script name script)
  cmake_parse_arguments(ARG "" "TIMEOUT" "" ${ARGN})
  add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${CMAKE_BINARY_DIR})
  # A script that cannot run at all says "skipped: WHAT: WHY" and ends with 77 (tests/skips).
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  neuron_set_test_cost(${name})
  if(ARG_TIMEOUT)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  endif()
endfunction()

# neuron_test_program(NAME SOURCE... LINK target...): a program that tests start, beside them in build/tests.
function(neuron_test_program name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(${name} PRIVATE NEURON_BUILD_DIR="${CMAKE_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE neuron_include ${ARG_LINK})
endfunction()

# neuron_fuzzer(NAME SOURCE CORPUS folder [SOURCES further...] LINK target...): a libFuzzer program; in other builds the same source with
# a small main that replays files, so that every corpus file is a regression test.
function(neuron_fuzzer name source)
  cmake_parse_arguments(ARG "" "CORPUS" "SOURCES;LINK" ${ARGN})
  if(NEURON_FUZZ)
    add_executable(${name} ${CMAKE_SOURCE_DIR}/${source} ${ARG_SOURCES})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${name}_corpus COMMAND ${name} -runs=0 -timeout=60 ${CMAKE_SOURCE_DIR}/${ARG_CORPUS})
  else()
    add_executable(${name} ${CMAKE_SOURCE_DIR}/${source} ${ARG_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cpp)
    add_test(NAME ${name}_corpus COMMAND ${name} ${CMAKE_SOURCE_DIR}/${ARG_CORPUS})
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
endfunction()
