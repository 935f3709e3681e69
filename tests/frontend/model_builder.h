// Small ONNX models built in tests, in the order they are read: inputs, initializers, nodes, outputs.
//
//   ModelBuilder model;
//   model.input("x", pb::TensorProto::FLOAT, {2, 3});
//   model.node("Relu", {"x"}, {"y"});
//   model.output("y", pb::TensorProto::FLOAT);
//   model.save(path);
#pragma once

#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "frontend/onnx/proto.h"

namespace tcc::onnx {

inline pb::AttributeProto int_attribute(const std::string& name, int64_t value) {
  pb::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(pb::AttributeProto::INT);
  attribute.set_i(value);
  return attribute;
}

inline pb::AttributeProto float_attribute(const std::string& name, float value) {
  pb::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(pb::AttributeProto::FLOAT);
  attribute.set_f(value);
  return attribute;
}

inline pb::AttributeProto text_attribute(const std::string& name, const std::string& value) {
  pb::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(pb::AttributeProto::STRING);
  attribute.set_s(value);
  return attribute;
}

inline pb::AttributeProto ints_attribute(const std::string& name, std::initializer_list<int64_t> values) {
  pb::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(pb::AttributeProto::INTS);
  for (const int64_t value : values) attribute.add_ints(value);
  return attribute;
}

inline pb::AttributeProto graph_attribute(const std::string& name, const pb::GraphProto& graph) {
  pb::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(pb::AttributeProto::GRAPH);
  *attribute.mutable_g() = graph;
  return attribute;
}

/// The value that the attribute of the call has, inside a function body.
inline pb::AttributeProto attribute_of_call(const std::string& name, const std::string& of_call, pb::AttributeProto::AttributeType type) {
  pb::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(type);
  attribute.set_ref_attr_name(of_call);
  return attribute;
}

inline pb::NodeProto make_node(const std::string& op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                               std::vector<pb::AttributeProto> attributes = {}, const std::string& name = "",
                               const std::string& domain = "") {
  pb::NodeProto node;
  node.set_op_type(op);
  node.set_name(name);
  node.set_domain(domain);
  for (const auto& input : inputs) node.add_input(input);
  for (const auto& output : outputs) node.add_output(output);
  for (const auto& attribute : attributes) *node.add_attribute() = attribute;
  return node;
}

inline pb::ValueInfoProto make_value_info(const std::string& name, int type, const std::vector<int64_t>* shape) {
  pb::ValueInfoProto info;
  info.set_name(name);
  auto* tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  if (shape != nullptr) {
    tensor->mutable_shape();
    for (const int64_t extent : *shape) tensor->mutable_shape()->add_dim()->set_dim_value(extent);
  }
  return info;
}

class ModelBuilder {
 public:
  explicit ModelBuilder(int64_t opset = 18) {
    proto.set_ir_version(8);
    import_domain("", opset);
    proto.mutable_graph()->set_name("g");
  }
  void import_domain(const std::string& domain, int64_t version) {
    auto* import = proto.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }
  void input(const std::string& name, int type, std::vector<int64_t> shape) { *graph().add_input() = make_value_info(name, type, &shape); }
  void output(const std::string& name, int type) { *graph().add_output() = make_value_info(name, type, nullptr); }
  pb::NodeProto& node(const std::string& op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                      std::vector<pb::AttributeProto> attributes = {}, const std::string& name = "", const std::string& domain = "") {
    return *graph().add_node() = make_node(op, std::move(inputs), std::move(outputs), std::move(attributes), name, domain);
  }
  pb::TensorProto& floats(const std::string& name, std::vector<int64_t> shape, std::vector<float> values) {
    auto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(pb::TensorProto::FLOAT);
    for (const int64_t extent : shape) tensor.add_dims(extent);
    for (const float value : values) tensor.add_float_data(value);
    return tensor;
  }
  pb::TensorProto& int64s(const std::string& name, std::vector<int64_t> shape, std::vector<int64_t> values) {
    auto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(pb::TensorProto::INT64);
    for (const int64_t extent : shape) tensor.add_dims(extent);
    for (const int64_t value : values) tensor.add_int64_data(value);
    return tensor;
  }
  pb::TensorProto& external(const std::string& name, std::vector<int64_t> shape, const std::string& location,
                            const std::string& offset = "", const std::string& length = "") {
    auto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(pb::TensorProto::FLOAT);
    tensor.set_data_location(pb::TensorProto::EXTERNAL);
    for (const int64_t extent : shape) tensor.add_dims(extent);
    auto entry = [&](const char* key, const std::string& value) {
      if (value.empty()) return;
      auto* pair = tensor.add_external_data();
      pair->set_key(key);
      pair->set_value(value);
    };
    entry("location", location);
    entry("offset", offset);
    entry("length", length);
    return tensor;
  }
  pb::GraphProto& graph() { return *proto.mutable_graph(); }
  std::string bytes() const { return proto.SerializeAsString(); }
  void save(const std::string& path) const { std::ofstream(path, std::ios::binary) << bytes(); }

  pb::ModelProto proto;
};

}  // namespace tcc::onnx
