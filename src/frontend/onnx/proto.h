// ONNX's own messages, as protoc makes them from its schema (lite runtime: no reflection, no text format).
#pragma once

#include "onnx-ml.pb.h"

namespace tcc::onnx {
namespace pb = tcc::onnx_pb;
}
