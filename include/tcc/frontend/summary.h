// What a model file says of itself, without importing it: so that a model which can't be compiled can be looked at too.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tcc {

struct ModelSummary {
  struct Value {
    std::string name, type;  ///< "f32[batch, 3]"; sizes without a name are `?`, a missing rank `[*]`
  };
  struct Op {
    std::string name;  ///< with its domain in front, unless that is ONNX's own
    int64_t count = 0;
    bool known = true;  ///< the importer has it
  };
  std::string kind = "ONNX model";
  std::string graph, producer;
  int64_t ir_version = 0;                               ///< of ONNX, as the next
  std::vector<std::pair<std::string, int64_t>> opsets;  ///< by domain; ONNX's own is `ai.onnx`
  std::vector<Value> inputs, outputs;
  std::vector<std::string> changes;  ///< buffers and inputs that the model changes when it runs
  std::vector<Op> ops;               ///< of the graph and of the model's own functions, most frequent first; not of branches
  int64_t num_nodes = 0, num_functions = 0;
  std::vector<std::string> library_functions;  ///< that a library of the file has, where there are several
  int64_t num_weights = 0, weight_elements = 0, weight_bytes = 0;
  std::map<std::string, int64_t> bytes_by_dtype;
  std::vector<std::string> external_files;  ///< as the model names them, in order of first use
  int64_t external_bytes = 0;
};

/// Reads an ONNX file, an archive of torch.export, such a program as JSON, or tcc.fx JSON; "-" is standard input. External data is not opened. Errors as
/// import_model(): unreadable, no model, of another kind.
ModelSummary summarize_model(const std::string& path);

}  // namespace tcc
