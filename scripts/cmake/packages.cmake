# Libraries beside LLVM, all as Debian packages them.
find_package(nlohmann_json REQUIRED)         # nlohmann_json::nlohmann_json, headers only
find_package(CLI11 REQUIRED)                 # CLI11::CLI11, headers only

# The static library by its file: an .so beside it would win otherwise.
find_library(TCC_PROTOBUF_LITE libprotobuf-lite.a REQUIRED)
find_program(TCC_PROTOC protoc REQUIRED)

option(TCC_TESTS "build the tests" ON)
if(TCC_TESTS)
  find_package(GTest REQUIRED)               # GTest::gtest and GTest::gtest_main, static libraries
endif()
