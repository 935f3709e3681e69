// The exported models of models.tar.xz that tcc compiles.
#pragma once

#include <string>
#include <vector>

#include "tcc/support/tensor.h"

namespace tcc::test {

struct ModelFile {
  std::string name;  ///< "bert_tiny/dynamo.onnx"
  std::string path;
};

/// Every .onnx and .pt2 file, sorted, but those of models with control flow or recurrent ops.
std::vector<ModelFile> model_files();

/// in0, in1, ... of the model's ref.npz, in the model's order, and its first output in f64.
struct Reference {
  std::vector<Tensor> inputs;
  Tensor output;
};
Reference read_reference(const ModelFile& file);

}  // namespace tcc::test
