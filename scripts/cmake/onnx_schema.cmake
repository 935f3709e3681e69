# tcc_onnx_proto: the C++ code that protoc makes of ONNX's own schema. Include "onnx-ml.pb.h".
#
# The schema is not kept in the repository. The first configure takes it from the pinned wheel (see the script) into
# build/downloads, which all build folders share. Its package is renamed before protoc sees it: the classes become
# tcc::onnx_pb::ModelProto and so on, and cannot meet those of another copy of ONNX in one process. The package is
# no part of the wire format.
set(TCC_DOWNLOADS ${CMAKE_SOURCE_DIR}/build/downloads CACHE PATH "where files taken from packages are kept")
set(onnx_schema ${TCC_DOWNLOADS}/onnx-ml.proto)
if(NOT EXISTS ${onnx_schema})
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/scripts/fetch_onnx_schema.sh ${TCC_DOWNLOADS} COMMAND_ERROR_IS_FATAL ANY)
endif()

set(onnx_generated ${CMAKE_BINARY_DIR}/generated/onnx)
file(MAKE_DIRECTORY ${onnx_generated})
file(READ ${onnx_schema} onnx_schema_text)
string(REPLACE "package onnx;" "package tcc.onnx_pb;" onnx_schema_text "${onnx_schema_text}")
file(CONFIGURE OUTPUT ${onnx_generated}/onnx-ml.proto CONTENT "${onnx_schema_text}" @ONLY)

add_custom_command(
  OUTPUT ${onnx_generated}/onnx-ml.pb.cc ${onnx_generated}/onnx-ml.pb.h
  COMMAND ${TCC_PROTOC} --proto_path=${onnx_generated} --cpp_out=${onnx_generated} onnx-ml.proto
  DEPENDS ${onnx_generated}/onnx-ml.proto
  VERBATIM)
add_library(tcc_onnx_proto STATIC ${onnx_generated}/onnx-ml.pb.cc ${onnx_generated}/onnx-ml.pb.h)
target_compile_options(tcc_onnx_proto PRIVATE -w)
target_include_directories(tcc_onnx_proto SYSTEM PUBLIC ${onnx_generated})
target_link_libraries(tcc_onnx_proto PUBLIC ${TCC_PROTOBUF_LITE} Threads::Threads)
