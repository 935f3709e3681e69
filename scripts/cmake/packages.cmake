# Libraries beside LLVM, all as Debian packages them.
find_package(nlohmann_json REQUIRED)         # nlohmann_json::nlohmann_json, headers only
find_package(CLI11 REQUIRED)                 # CLI11::CLI11, headers only

# The static library by its file: an .so beside it would win otherwise.
find_library(TCC_PROTOBUF_LITE libprotobuf-lite.a REQUIRED)
find_program(TCC_PROTOC protoc REQUIRED)

# tcc_zlib and tcc_zstd: LLVM needs both, and an .npz file is a deflated zip.
find_library(TCC_ZLIB libz.a REQUIRED)
find_library(TCC_ZSTD libzstd.a REQUIRED)
add_library(tcc_zlib INTERFACE)
target_link_libraries(tcc_zlib INTERFACE ${TCC_ZLIB})
add_library(tcc_zstd INTERFACE)
target_link_libraries(tcc_zstd INTERFACE ${TCC_ZSTD})

# tcc_minizip: archives of torch.export are zips.
find_library(TCC_MINIZIP libminizip.a REQUIRED)
add_library(tcc_minizip INTERFACE)
target_link_libraries(tcc_minizip INTERFACE ${TCC_MINIZIP} tcc_zlib)

option(TCC_TESTS "build the tests" ON)
if(TCC_TESTS)
  find_package(GTest REQUIRED)               # GTest::gtest and GTest::gtest_main, static libraries
endif()
