#include "onnx/test_case.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
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

/// The older suite writes bf16 values as u16, their bits.
Tensor read_tensor(const std::string& bytes, const pb::TypeProto& type) {
  auto proto = std::make_shared<pb::TensorProto>();
  if (!proto->ParseFromString(bytes) || proto->data_type() == 0) throw std::runtime_error("the bytes are not a tensor");
  const int declared = type.tensor_type().elem_type();
  if (declared == pb::TensorProto::BFLOAT16 && proto->data_type() == pb::TensorProto::UINT16) proto->set_data_type(declared);
  try {
    return onnx::tensor_of(*proto, {nullptr, proto});
  } catch (const RuleError& error) { throw std::runtime_error(error.message); }
}

/// The messages in the fields of that number. SequenceProto and OptionalProto are not part of the schema of models.
std::vector<std::string> messages_in(const std::string& bytes, int number) {
  using google::protobuf::io::CodedInputStream;
  CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  std::vector<std::string> messages;
  while (const uint32_t tag = stream.ReadTag()) {
    uint32_t size = 0;
    uint64_t value = 0;
    std::string text;
    bool read = false;
    if ((tag & 7) == 0) read = stream.ReadVarint64(&value);
    if ((tag & 7) == 2) read = stream.ReadVarint32(&size) && stream.ReadString(&text, static_cast<int>(size));
    if (!read) throw std::runtime_error("the bytes are not a sequence or optional");
    if ((tag & 7) == 2 && tag >> 3 == static_cast<uint32_t>(number)) messages.push_back(text);
  }
  return messages;
}

constexpr int kTensorField = 3, kSequenceField = 5;  // of both messages

TestValue read_value(const std::string& bytes, const pb::TypeProto& type) {
  if (type.has_optional_type()) {
    const pb::TypeProto& element = type.optional_type().elem_type();
    const auto held = messages_in(bytes, element.has_sequence_type() ? kSequenceField : kTensorField);
    if (held.empty()) return {TestValue::Kind::empty, {}};
    return read_value(held[0], element);
  }
  if (type.has_sequence_type()) {
    TestValue value{TestValue::Kind::sequence, {}};
    for (const std::string& element : messages_in(bytes, kTensorField))
      value.tensors.push_back(read_tensor(element, type.sequence_type().elem_type()));
    return value;
  }
  return {TestValue::Kind::tensor, {read_tensor(bytes, type)}};
}

/// input_0.pb, input_1.pb, ... of a folder; `types` are those that the model declares.
std::vector<TestValue> read_values(const fs::path& folder, const std::string& stem, const std::vector<pb::TypeProto>& types) {
  std::vector<TestValue> values;
  for (size_t i = 0;; ++i) {
    const fs::path path = folder / (stem + "_" + std::to_string(i) + ".pb");
    if (!fs::exists(path)) return values;
    try {
      values.push_back(read_value(read_text_file(path.string()), i < types.size() ? types[i] : pb::TypeProto()));
    } catch (const std::runtime_error& error) { throw std::runtime_error(path.filename().string() + ": " + error.what()); }
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
  std::vector<pb::TypeProto> input_types, output_types;
  for (const auto& input : model.graph().input()) {
    if (initialized.contains(input.name())) continue;
    contents.input_names.push_back(input.name());
    input_types.push_back(input.type());
  }
  for (const auto& output : model.graph().output()) output_types.push_back(output.type());
  for (int i = 0;; ++i) {
    const fs::path folder = fs::path(test.folder) / ("test_data_set_" + std::to_string(i));
    if (!fs::exists(folder)) return contents;
    contents.sets.push_back({read_values(folder, "input", input_types), read_values(folder, "output", output_types)});
  }
}

}  // namespace tcc::onnx_suite
