# How the project's targets are declared.
#
#   tcc_add_library(tcc_graph SOURCES print.cpp parse.cpp DEPS tcc_support)
#   tcc_add_executable(tcc SOURCES main.cpp DEPS tcc_cli)
#   tcc_add_test(graph_print SOURCES print_test.cpp LIBS tcc_graph LABELS quick)
#   tcc_add_text_tests(${CMAKE_CURRENT_SOURCE_DIR})
#
# DEPS may name a library whose folder does not exist yet: that matters only when something is linked with it.

find_package(Threads REQUIRED)

# What every binary of ours is linked with: the C++ library inside, code that nothing calls left out.
# The sanitizers need the shared C++ library to intercept exceptions.
function(tcc_link_options target)
  target_link_options(${target} PRIVATE -Wl,--gc-sections -Wl,--as-needed)
  if(NOT TCC_SANITIZE)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# include/ holds the headers that cross a folder and is public; src/ is for headers that stay beside their .cpp.
# PRECOMPILE: headers that most of its files include, parsed once for this library beside those of precompiled.cmake.
# OPTIONS: compiler options of its own. GCC 12 fails on a header that was precompiled at another level: such a library has its own.
function(tcc_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS;PRECOMPILE;OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tcc_add_library(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/include PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC ${arg_DEPS} Threads::Threads)
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  if(arg_PRECOMPILE OR arg_OPTIONS)
    tcc_precompile(${name} ${arg_PRECOMPILE})
  else()
    tcc_use_precompiled(${name} tcc_precompiled)
  endif()
endfunction()

function(tcc_add_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS;PRECOMPILE")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tcc_add_executable(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ${arg_DEPS} Threads::Threads)
  if(arg_PRECOMPILE)
    tcc_precompile(${name} ${arg_PRECOMPILE})
  endif()
  tcc_link_options(${name})
endfunction()

# A GoogleTest program, one ctest entry. The sources see these definitions:
#   TCC_SOURCE_DIR, TCC_BINARY_DIR   the tree and the build folder
#   TCC_EXECUTABLE                   the tcc program of this build
#   TCC_MODELS_DIR                   the models of models/models.tar.xz, unpacked (see MODELS)
#   TCC_TEST_DATA_DIR                the folder given as DATA; the test's own folder otherwise
# MODELS: the test reads TCC_MODELS_DIR, so building it unpacks the archive.
# NEEDS_TCC: building the test builds tcc as well.
# OWN_MAIN: the sources bring their own main().
# LABELS: `gpu` needs a CUDA device, `performance` is timed; both are left out of the usual run.
function(tcc_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "MODELS;NEEDS_TCC;OWN_MAIN" "DATA;TIMEOUT" "SOURCES;LIBS;LABELS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tcc_add_test(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_DATA)
    set(arg_DATA ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  get_filename_component(arg_DATA ${arg_DATA} ABSOLUTE)
  set(target test_${name})
  add_executable(${target} ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${target} PRIVATE
    TCC_SOURCE_DIR="${CMAKE_SOURCE_DIR}" TCC_BINARY_DIR="${CMAKE_BINARY_DIR}"
    TCC_EXECUTABLE="${CMAKE_BINARY_DIR}/bin/tcc" TCC_MODELS_DIR="${CMAKE_BINARY_DIR}/models"
    TCC_TEST_DATA_DIR="${arg_DATA}")
  if(arg_OWN_MAIN)
    target_link_libraries(${target} PRIVATE ${arg_LIBS} GTest::gtest)
  else()
    target_link_libraries(${target} PRIVATE ${arg_LIBS} GTest::gtest_main)
  endif()
  tcc_use_precompiled(${target} tcc_precompiled_programs)
  tcc_link_options(${target})
  if(arg_NEEDS_TCC AND TARGET tcc)
    add_dependencies(${target} tcc)
  endif()
  if(arg_MODELS)
    add_dependencies(${target} tcc_models)
  endif()

  add_test(NAME ${name} COMMAND ${target})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set(properties TIMEOUT ${arg_TIMEOUT})
  if(arg_LABELS)
    list(APPEND properties LABELS "${arg_LABELS}")
  endif()
  if(TCC_SANITIZE)   # finding leaks takes ptrace, which containers often forbid
    list(APPEND properties ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
  endif()
  if("performance" IN_LIST arg_LABELS)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  set_tests_properties(${name} PROPERTIES ${properties})
endfunction()

# Registers every file below `folder` that has a `// RUN:` line, one ctest entry each; tests/tools/text_case.h says
# what such a file may hold. A file that is new is seen when CMake runs next.
function(tcc_add_text_tests folder)
  get_filename_component(folder ${folder} ABSOLUTE)
  if(NOT TARGET tcc)
    return()   # nothing to run them with: src/cli is not there
  endif()
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${folder}/*)
  foreach(file IN LISTS files)
    if(file MATCHES "\\.(cpp|h|txt|md|npy|npz|pb|onnx)$")
      continue()
    endif()
    file(STRINGS ${file} run_lines REGEX "^(//|#) RUN:" LIMIT_COUNT 1)
    if(NOT run_lines)
      continue()
    endif()
    file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR}/tests ${file})
    add_test(NAME ${name}
      COMMAND tcc_text_test --tcc=$<TARGET_FILE:tcc> --stages=$<TARGET_FILE:tcc_stages> --models=${CMAKE_BINARY_DIR}/models
              --scratch=${CMAKE_BINARY_DIR}/tests/scratch ${file})
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120 LABELS text)
  endforeach()
endfunction()
