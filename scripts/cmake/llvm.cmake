# tcc_llvm: LLVM's headers and the static libraries tcc uses.       tcc_lld: the ELF linker, as a library.
#
# Both are for src/codegen and src/link only. Linking needs care in four places, because Debian's LLVM is meant to be
# used as one shared library:
#  - the components' own dependencies name libz3.so and the shared zstd; the first is used by nothing we call, and for
#    the second there is an archive;
#  - lld's imported targets pull in libLLVM.so, so its archives are taken by their file names;
#  - lld initializes every target that LLVM was configured with; those that tcc leaves out get an empty function;
#  - 22.1 has to be asked for: LLVM's version file refuses a plain 22.
find_package(LLVM 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22)

get_target_property(support_libraries LLVMSupport INTERFACE_LINK_LIBRARIES)
list(FILTER support_libraries EXCLUDE REGEX "z3|ZLIB|zstd")
set_target_properties(LLVMSupport PROPERTIES
  INTERFACE_LINK_LIBRARIES "${support_libraries};tcc_zlib;tcc_zstd")

llvm_map_components_to_libnames(tcc_llvm_libraries
  NVPTXCodeGen X86CodeGen X86AsmParser Passes Target IRReader LTO DTLTO Option DebugInfoDWARF)
# LLVM_DEFINITIONS is left out: g++ defines or ignores all that is in it, and a definition of its own would keep a file from
# using the precompiled headers.
add_library(tcc_llvm INTERFACE)
target_include_directories(tcc_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_link_libraries(tcc_llvm INTERFACE ${tcc_llvm_libraries})

set(absent_targets ${LLVM_TARGETS_TO_BUILD})
list(REMOVE_ITEM absent_targets NVPTX X86)
set(absent_targets_source "// Written by scripts/cmake/llvm.cmake: what lld calls for the targets that tcc is built without.\n")
foreach(target IN LISTS absent_targets)
  foreach(part Target TargetInfo TargetMC AsmPrinter AsmParser Disassembler)
    string(APPEND absent_targets_source "extern \"C\" void LLVMInitialize${target}${part}() {}\n")
  endforeach()
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/absent_targets.cpp CONTENT "${absent_targets_source}" @ONLY)
add_library(tcc_absent_targets STATIC ${CMAKE_BINARY_DIR}/generated/absent_targets.cpp)

find_library(TCC_LLD_ELF liblldELF.a REQUIRED PATHS ${LLVM_LIBRARY_DIR} NO_DEFAULT_PATH)
find_library(TCC_LLD_COMMON liblldCommon.a REQUIRED PATHS ${LLVM_LIBRARY_DIR} NO_DEFAULT_PATH)
add_library(tcc_lld INTERFACE)
target_link_libraries(tcc_lld INTERFACE ${TCC_LLD_ELF} ${TCC_LLD_COMMON} tcc_absent_targets tcc_llvm)
