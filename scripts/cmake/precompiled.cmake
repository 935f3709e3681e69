# Headers of the C++ library that are parsed once for all files: half the time that most files take to compile.
#
#   tcc_precompiled            for libraries
#   tcc_precompiled_programs   for the programs of tests, which are compiled with -fPIE; with GoogleTest's
#
# A file still includes what it uses: -DTCC_PRECOMPILE=OFF builds without these. ccache keeps the objects of both ways; the
# settings it needs for that stand with the launcher in settings.cmake.
option(TCC_PRECOMPILE "parse the C++ library's headers once" ON)

set(tcc_precompiled_headers
  <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map> <memory> <numeric> <optional>
  <set> <span> <string> <string_view> <unordered_map> <unordered_set> <utility> <variant> <vector>)

# A target that parses them for itself, with more headers.
function(tcc_precompile target)
  if(TCC_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${tcc_precompiled_headers} ${ARGN})
  endif()
endfunction()

# A target whose only purpose is what it has parsed.
function(tcc_add_precompiled name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;DEPS")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${name}.cpp CONTENT "" @ONLY)
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/generated/${name}.cpp)
  target_link_libraries(${name} PRIVATE ${arg_DEPS} Threads::Threads)
  tcc_precompile(${name} ${arg_HEADERS})
endfunction()

function(tcc_use_precompiled target name)
  if(TCC_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

if(TCC_PRECOMPILE)
  find_package(Threads REQUIRED)
  tcc_add_precompiled(tcc_precompiled)
  if(TCC_TESTS)
    tcc_add_precompiled(tcc_precompiled_programs HEADERS <gtest/gtest.h> DEPS GTest::gtest)
    # GCC takes a header only with the settings it was made with.
    set_target_properties(tcc_precompiled_programs PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(tcc_precompiled_programs PRIVATE -fPIE)
  endif()
endif()
