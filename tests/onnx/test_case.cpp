#include "onnx/test_case.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "frontend/onnx/tensors.h"
#include "tcc/graph/rule_error.h"
#include "tcc/support/files.h"

namespace tcc::onnx_suite {
namespace {

namespace fs = std::filesystem;

namespace pb = onnx::pb;

/// A value as a file has it: an optional or a sequence of tensors is a message whose field 3 holds them, and a sequence in an optional is its field 5.
/// Those messages are not in onnx-ml.proto.
std::vector<std::shared_ptr<pb::TensorProto>> tensors_in(const std::string& bytes, bool is_list, const std::string& file) {
  std::vector<std::shared_ptr<pb::TensorProto>> protos;
  if (!is_list) {
    protos.push_back(std::make_shared<pb::TensorProto>());
    if (!protos[0]->ParseFromString(bytes) || protos[0]->data_type() == 0) throw std::runtime_error(file + " is not a tensor");
    return protos;
  }
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  while (const uint32_t tag = stream.ReadTag()) {
    uint64_t number = 0;
    std::string text;
    const bool is_bytes = (tag & 7) == 2;
    if (is_bytes ? !stream.ReadVarint64(&number) || !stream.ReadString(&text, static_cast<int>(number)) : !stream.ReadVarint64(&number))
      throw std::runtime_error(file + " is not a sequence");
    if (!is_bytes || (tag >> 3 != 3 && tag >> 3 != 5)) continue;
    const auto inner = tensors_in(text, tag >> 3 == 5, file);
    protos.insert(protos.end(), inner.begin(), inner.end());
  }
  return protos;
}

/// What a model declares of an input or output.
struct Declared {
  std::string name;
  int type = 0;  ///< of elements
  bool is_list = false, is_sequence = false;
};

Declared declared(const pb::ValueInfoProto& info) {
  const pb::TypeProto& value = onnx::value_type(info.type());
  Declared result{info.name(), value.tensor_type().elem_type(), info.type().has_optional_type() || value.has_sequence_type(),
                  value.has_sequence_type()};
  if (result.is_sequence) result.type = value.sequence_type().elem_type().tensor_type().elem_type();
  return result;
}

/// input_0.pb, input_1.pb, ... of a folder. The suite writes bf16 values as u16, their bits. `names` receives those of the tensors: a sequence has `s.0`, `s.1`, ...
std::vector<Tensor> read_tensors(const fs::path& folder, const std::string& stem, const std::vector<Declared>& all,
                                 std::vector<std::string>& names) {
  std::vector<Tensor> tensors;
  names.clear();
  for (size_t i = 0;; ++i) {
    const fs::path path = folder / (stem + "_" + std::to_string(i) + ".pb");
    if (!fs::exists(path)) return tensors;
    const std::string file = path.filename().string();
    const Declared own = i < all.size() ? all[i] : Declared{};
    const auto protos = tensors_in(read_text_file(path.string()), own.is_list, file);
    if (!own.is_sequence && protos.size() != 1) throw std::runtime_error(file + " is an empty optional");
    for (size_t k = 0; k < protos.size(); ++k) {
      if (own.type == pb::TensorProto::BFLOAT16 && protos[k]->data_type() == pb::TensorProto::UINT16) protos[k]->set_data_type(own.type);
      try {
        tensors.push_back(onnx::tensor_of(*protos[k], {nullptr, protos[k]}));
      } catch (const RuleError& error) { throw std::runtime_error(file + ": " + error.message); }
      names.push_back(own.is_sequence ? own.name + "." + std::to_string(k) : own.name);
    }
  }
}

}  // namespace

std::vector<TestCase> find_tests(const std::string& folder) {
  std::vector<TestCase> tests;
  if (!fs::is_directory(folder)) return tests;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "model.onnx")) tests.push_back({entry.path().filename().string(), entry.path().string()});
  }
  std::sort(tests.begin(), tests.end(), [](const TestCase& a, const TestCase& b) { return a.name < b.name; });
  return tests;
}

TestContents read_test(const TestCase& test) {
  onnx::pb::ModelProto model;
  if (!model.ParseFromString(read_text_file(test.folder + "/model.onnx"))) throw std::runtime_error("model.onnx is not a model");
  std::set<std::string> initialized;
  for (const auto& tensor : model.graph().initializer()) initialized.insert(tensor.name());
  TestContents contents;
  std::vector<Declared> inputs, outputs;
  for (const auto& input : model.graph().input()) {
    if (!initialized.contains(input.name())) inputs.push_back(declared(input));
  }
  for (const auto& output : model.graph().output()) outputs.push_back(declared(output));
  for (const Declared& input : inputs) contents.input_names.push_back(input.name);
  std::vector<std::string> of_outputs;
  for (int i = 0;; ++i) {
    const fs::path folder = fs::path(test.folder) / ("test_data_set_" + std::to_string(i));
    if (!fs::exists(folder)) return contents;
    TestData& data = contents.sets.emplace_back();
    data.inputs = read_tensors(folder, "input", inputs, contents.input_names);
    data.outputs = read_tensors(folder, "output", outputs, of_outputs);
  }
}

}  // namespace tcc::onnx_suite
