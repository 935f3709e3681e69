#include "onnx/op_forms.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "tcc/frontend/import.h"
#include "tcc/support/files.h"

namespace tcc::onnx_suite {
namespace {

using Json = nlohmann::json;
namespace pb = onnx::pb;

/// By our names.
const std::map<std::string, int>& onnx_types() {
  using T = pb::TensorProto;
  static const std::map<std::string, int> types = {{"f32", T::FLOAT},
                                                   {"f64", T::DOUBLE},
                                                   {"f16", T::FLOAT16},
                                                   {"bf16", T::BFLOAT16},
                                                   {"i8", T::INT8},
                                                   {"i16", T::INT16},
                                                   {"i32", T::INT32},
                                                   {"i64", T::INT64},
                                                   {"u8", T::UINT8},
                                                   {"u16", T::UINT16},
                                                   {"u32", T::UINT32},
                                                   {"u64", T::UINT64},
                                                   {"bool", T::BOOL},
                                                   {"i4", T::INT4},
                                                   {"u4", T::UINT4},
                                                   {"f8e4m3fn", T::FLOAT8E4M3FN},
                                                   {"f8e4m3fnuz", T::FLOAT8E4M3FNUZ},
                                                   {"f8e5m2", T::FLOAT8E5M2},
                                                   {"f8e5m2fnuz", T::FLOAT8E5M2FNUZ}};
  return types;
}

/// Values are converted to the bytes of the type.
void set_tensor(pb::TensorProto& proto, const std::string& dtype, const Json& shape, const Json& values) {
  proto.set_data_type(onnx_types().at(dtype));
  Tensor tensor(*parse_dtype(dtype), shape.get<Shape>());
  for (int64_t extent : tensor.shape()) proto.add_dims(extent);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const Json& value = values[static_cast<size_t>(i)];
    if (value.is_number_integer() && !is_float(tensor.dtype())) tensor.set_int64(i, value.get<int64_t>());
    else tensor.set_double(i, value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>());
  }
  proto.set_raw_data(tensor.bytes(), static_cast<size_t>(tensor.size_bytes()));
}

pb::GraphProto graph_of(const Json& json);

void set_attribute(pb::AttributeProto& attribute, const std::string& kind, const Json& value) {
  using A = pb::AttributeProto;
  if (kind == "i") attribute.set_type(A::INT), attribute.set_i(value.get<int64_t>());
  if (kind == "f") attribute.set_type(A::FLOAT), attribute.set_f(value.get<float>());
  if (kind == "s") attribute.set_type(A::STRING), attribute.set_s(value.get<std::string>());
  if (kind == "t") attribute.set_type(A::TENSOR), set_tensor(*attribute.mutable_t(), value[0], value[1], value[2]);
  if (kind == "g") attribute.set_type(A::GRAPH), *attribute.mutable_g() = graph_of(value);
  if (kind == "ints") attribute.set_type(A::INTS);
  if (kind == "floats") attribute.set_type(A::FLOATS);
  if (kind == "strings") attribute.set_type(A::STRINGS);
  if (kind.size() < 2) return;
  for (const Json& each : value) {
    if (kind == "ints") attribute.add_ints(each.get<int64_t>());
    if (kind == "floats") attribute.add_floats(each.get<float>());
    if (kind == "strings") attribute.add_strings(each.get<std::string>());
  }
}

pb::GraphProto graph_of(const Json& json) {
  pb::GraphProto graph;
  graph.set_name("g");
  for (const Json& row : json.at("inputs")) {
    pb::ValueInfoProto& input = *graph.add_input();
    input.set_name(row[0].get<std::string>());
    if (row[1] != "") input.mutable_type()->mutable_tensor_type()->set_elem_type(onnx_types().at(row[1]));
    for (const Json& extent : row[2]) input.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(extent);
    input.mutable_type()->mutable_tensor_type()->mutable_shape();
  }
  for (const Json& row : json.at("weights")) {
    pb::TensorProto& weight = *graph.add_initializer();
    weight.set_name(row[0].get<std::string>());
    set_tensor(weight, row[1], row[2], row[3]);
  }
  for (const Json& row : json.at("nodes")) {
    pb::NodeProto& node = *graph.add_node();
    node.set_op_type(row[0].get<std::string>());
    for (const Json& name : row[1]) node.add_input(name.get<std::string>());
    for (const Json& name : row[2]) node.add_output(name.get<std::string>());
    for (const auto& [name, attribute] : row[3].items()) {
      pb::AttributeProto& proto = *node.add_attribute();
      proto.set_name(name);
      set_attribute(proto, attribute.items().begin().key(), attribute.items().begin().value());
    }
    if (row.size() > 4) node.set_domain(row[4].get<std::string>());
  }
  for (const Json& name : json.at("outputs")) graph.add_output()->set_name(name.get<std::string>());
  return graph;
}

OpForm form_of(const Json& json) {
  OpForm form;
  form.domain = json.at("domain");
  form.op = json.at("op");
  form.since = json.at("since");
  form.last = json.at("last");
  if (!json.contains("nodes")) return form;
  form.graph = graph_of(json);
  form.types = json.at("types").get<std::vector<std::string>>();
  form.varied = json.at("varied").get<std::vector<std::string>>();
  form.beside = json.at("beside").get<std::vector<std::string>>();
  for (const char* kind : {"inputs", "weights"}) {
    for (const Json& row : json.at(kind)) {
      if (!form.varied.empty() && row[0] == form.varied[0]) form.dtype = row[1];
    }
  }
  return form;
}

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The values of a tensor of raw bytes, in another type.
void convert(pb::TensorProto& proto, const std::string& from, const std::string& to) {
  const Shape shape(proto.dims().begin(), proto.dims().end());
  const Tensor tensor = Tensor(*parse_dtype(from), shape, reinterpret_cast<const std::byte*>(proto.raw_data().data()), nullptr);
  const Tensor converted = tensor.cast_to(*parse_dtype(to));
  proto.set_data_type(onnx_types().at(to));
  proto.set_raw_data(converted.bytes(), static_cast<size_t>(converted.size_bytes()));
}

}  // namespace

std::string OpForm::model(int version, const std::string& type, bool all) const {
  pb::ModelProto proto;
  proto.set_ir_version(10);
  const auto import = [&](const std::string& name, int number) {
    proto.add_opset_import()->set_domain(name);
    proto.mutable_opset_import()->rbegin()->set_version(number);
  };
  import("", domain.empty() ? version : kNewestOpset);
  if (!domain.empty()) import(domain, version);
  *proto.mutable_graph() = graph;
  if (!type.empty()) {
    for (auto& input : *proto.mutable_graph()->mutable_input()) {
      if (holds(varied, input.name()) || (all && holds(beside, input.name())))
        input.mutable_type()->mutable_tensor_type()->set_elem_type(onnx_types().at(type));
    }
    for (auto& weight : *proto.mutable_graph()->mutable_initializer()) {
      if (holds(varied, weight.name())) convert(weight, dtype, type);
    }
  }
  return proto.SerializeAsString();
}

std::map<std::pair<std::string, std::string>, std::vector<OpForm>> read_op_forms(const std::string& path) {
  std::map<std::pair<std::string, std::string>, std::vector<OpForm>> forms;
  for (const Json& row : Json::parse(read_text_file(path))) {
    OpForm form = form_of(row);
    forms[{form.domain, form.op}].push_back(std::move(form));
  }
  return forms;
}

}  // namespace tcc::onnx_suite
