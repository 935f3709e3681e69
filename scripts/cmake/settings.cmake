# Compiler settings that hold for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)                # also keeps the compiler from contracting a*b+c: the interpreter is an oracle
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()
set(TCC_OPT "-O1" CACHE STRING "optimisation level of RelWithDebInfo builds")
set(TCC_SANITIZE "" CACHE STRING "sanitizers, as -fsanitize takes them: address,undefined or thread")
option(TCC_WERROR "treat warnings as errors" OFF)

# RelWithDebInfo is the kind one works with: assertions stay on, and the debug information is what a backtrace needs
# and no more, which halves the size of the objects.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "${TCC_OPT} -g1")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "${TCC_OPT} -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
add_link_options($<$<CONFIG:Release>:-s>)

add_compile_options(-Wall -Wextra -ffunction-sections -fdata-sections)
add_compile_options(-Werror=switch)   # a switch over the rows of a table says so when one is added
# A designated initializer that leaves fields at their defaults is the normal way to fill an options struct here.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>)
if(TCC_WERROR)
  # GCC 12 takes the storage of short strings that are joined for too small, here and there; it stays a warning.
  add_compile_options(-Werror -Wno-error=array-bounds)
endif()
if(TCC_SANITIZE)
  # vptr is left out: it takes objects that LLVM's libraries made for damaged ones.
  add_compile_options(-fsanitize=${TCC_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TCC_SANITIZE})
endif()

find_program(TCC_CCACHE ccache)
if(TCC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The build folder's name is left out of the hash, so that several build folders of one kind share their objects.
  # A precompiled header is told by what is in it, not by its age.
  set(tcc_launcher env CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${TCC_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${tcc_launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${tcc_launcher})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()

# lld links a binary that holds LLVM in half a second, the system linker in ten. -B because it may be installed only
# under LLVM's own folder.
find_program(TCC_LLD ld.lld HINTS /usr/lib/llvm-22/bin NO_DEFAULT_PATH)
find_program(TCC_LLD ld.lld)
if(TCC_LLD)
  get_filename_component(tcc_lld_folder ${TCC_LLD} DIRECTORY)
  add_link_options(-fuse-ld=lld -B${tcc_lld_folder})
endif()
