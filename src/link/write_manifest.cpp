// The manifest: what is in a library, as JSON, in a fixed order and one line per item, so that two of them can be compared by diff.
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>

#include "link/planned_memory.h"
#include "tcc/link/link.h"

namespace tcc::link {
namespace {

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const unsigned char u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (u < 32) {
      constexpr char digits[] = "0123456789abcdef";
      result += {'\\', 'u', '0', '0', digits[u >> 4], digits[u & 15]};
    } else {
      result += c;
    }
  }
  return result + "\"";
}

// A list of items that are objects in one line each.
template <class T, class Write> std::string json_list(const std::vector<T>& items, const std::string& indent, Write write) {
  if (items.empty()) return "[]";
  std::string text = "[\n";
  for (size_t i = 0; i < items.size(); i++) text += indent + "  {" + write(items[i]) + (i + 1 < items.size() ? "},\n" : "}\n");
  return text + indent + "]";
}

std::string field(const char* name, const std::string& value) { return "\"" + std::string(name) + "\": " + value; }
std::string field(const char* name, uint64_t value) { return field(name, std::to_string(value)); }

std::string tensor_fields(const TensorDesc& tensor) {
  return field("name", json_string(tensor.name)) + ", " + field("dtype", json_string(name_of(tensor.dtype))) + ", " +
         field("shape", to_string(tensor.shape)) + ", " +
         field("bytes", static_cast<uint64_t>(storage_bytes(tensor.dtype, num_elements(tensor.shape)))) +
         (tensor.range ? ", \"range\": [" + std::to_string(tensor.range->low) + ", " + std::to_string(tensor.range->high) + "]" : "");
}

std::string number(double value) {
  char text[32];
  for (int digits = 1; digits <= 17; digits++) {  // the shortest that reads back
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, nullptr) == value) break;
  }
  return text;
}

std::string function_text(const ProgramDesc& program, const FunctionDesc& function) {
  const auto guard_fields = [&](const GuardDesc& guard) {
    return field("scalar", json_string(program.scalars.at(guard.scalar).name)) + ", " + field("value", number(guard.value)) + ", " +
           field("text", json_string(guard.text));
  };
  return "    {\n      " + field("name", json_string(function.name)) +
         ",\n      \"inputs\": " + json_list(function.inputs, "      ", tensor_fields) +
         ",\n      \"outputs\": " + json_list(function.outputs, "      ", tensor_fields) +
         (function.guards.empty() ? "" : ",\n      \"guards\": " + json_list(function.guards, "      ", guard_fields)) + "\n    }";
}

std::string state_fields(const StateLayout& layout, const StateTensor& tensor) {
  const StateSection& section = layout.sections[static_cast<size_t>(tensor.section)];
  std::string text = field("name", json_string(tensor.name)) + ", " + field("role", json_string(name_of(tensor.role))) + ", " +
                     field("dtype", json_string(name_of(tensor.dtype))) + ", " + field("shape", to_string(tensor.shape)) + ", " +
                     field("bytes", static_cast<uint64_t>(tensor.size_bytes())) + ", " + field("section", json_string(section.name)) +
                     ", " + field("offset", static_cast<uint64_t>(tensor.offset - section.offset));
  if (tensor.role == StateRole::parameter) text += ", " + field("trained", tensor.trained ? "true" : "false");
  return text;
}

std::string launches_text(const TargetDesc& target, const FunctionCode& code, const std::string& indent) {
  return json_list(code.launches, indent, [&](const LaunchDesc& launch) {
    std::string fields = field("label", json_string(launch.label)) + ", ";
    if (launch.kind == LaunchKind::kernel) {
      fields += field("kernel", json_string(target.kernels[launch.kernel].name)) + ", " + field("grid", launch.grid);
    } else {
      fields += field("kernel", json_string(launch.kind == LaunchKind::copy ? "copy" : "fill")) + ", " + field("bytes", launch.size_bytes);
    }
    fields += ", \"buffers\": [";
    for (size_t i = 0; i < launch.arguments.size(); i++) {
      const std::string& name = code.buffers[launch.arguments[i]].name;
      fields += (i ? ", " : "") + json_string(name.empty() ? "#" + std::to_string(launch.arguments[i]) : name);
    }
    return fields + "]";
  });
}

std::string code_text(const ProgramDesc& program, const WeightsLayout& weights, const TargetDesc& target, size_t f) {
  const FunctionCode& code = target.functions[f];
  const PlannedMemory memory = planned_memory(program, weights, target, f);
  const std::string indent = "          ";
  return "        {\n" + indent + field("name", json_string(program.functions[f].name)) + ",\n" + indent +
         field("peak_bytes", code.arena_bytes) + ",\n" + indent + field("sum_of_buffers_bytes", code.sum_of_buffers) + ",\n" + indent +
         field("planned_peak_bytes", memory.peak_bytes()) + ",\n" + indent + field("gradient_bytes", memory.gradient_bytes) + ",\n" +
         indent + field("num_launches", code.launches.size()) + ",\n" + indent + "\"launches\": " + launches_text(target, code, indent) +
         "\n        }";
}

std::string target_text(const ProgramDesc& program, const WeightsLayout& weights, const TargetDesc& target) {
  const bool cuda = target.kind == TargetKind::cuda;
  std::vector<uint64_t> num_launches(target.kernels.size());
  const auto count = [&](const FunctionCode& code) {
    for (const LaunchDesc& launch : code.launches) {
      if (launch.kind == LaunchKind::kernel) num_launches[launch.kernel]++;
    }
  };
  for (const FunctionCode& code : target.functions) count(code);
  count(target.preparation);
  std::string text = "    {\n      " + field("target", json_string(cuda ? "cuda" : "cpu")) + ",\n";
  if (!cuda) {
    text += "      \"levels\": [";
    for (size_t i = 0; i < target.levels.size(); i++)
      text += (i ? ", " : "") + json_string("x86-64-v" + std::to_string(static_cast<uint32_t>(target.levels[i])));
    text += "],\n";
  }
  // Peak and launches are those of the first function; all functions follow below.
  const PlannedMemory memory = planned_memory(program, weights, target, 0);
  text += "      " + field("peak_bytes", memory.arena_bytes) + ",\n      " +
          field("sum_of_buffers_bytes", target.functions[0].sum_of_buffers) + ",\n";
  text += "      " + field("weights_bytes", memory.weights_bytes) + ",\n      " + field("prepared_bytes", memory.prepared_bytes) +
          ",\n      " + field("state_bytes", memory.state_bytes) + ",\n";
  text += "      " + field("num_kernels", target.kernels.size()) + ",\n      " +
          field("num_launches", target.functions[0].launches.size()) + ",\n";
  const bool deterministic = std::ranges::none_of(target.kernels, &KernelDesc::depends_on_order);
  text += "      " + field("deterministic", std::string(deterministic ? "true" : "false")) + ",\n";
  size_t k = 0;
  text += "      \"kernels\": " + json_list(target.kernels, "      ", [&](const KernelDesc& kernel) {
            std::string fields = field("name", json_string(kernel.name)) + ", " + field("launches", num_launches[k++]);
            if (cuda) fields += ", " + field("threads", kernel.threads) + ", " + field("shared_bytes", kernel.shared_bytes);
            if (kernel.depends_on_order) fields += ", " + field("depends_on_order", std::string("true"));
            return fields;
          });
  text += ",\n      \"preparation\": " + launches_text(target, target.preparation, "      ");
  text += ",\n      \"functions\": [\n";
  for (size_t f = 0; f < target.functions.size(); f++)
    text += code_text(program, weights, target, f) + (f + 1 < target.functions.size() ? ",\n" : "\n");
  return text + "      ]\n    }";
}

}  // namespace

std::string write_manifest(const LinkInput& input) {
  const ProgramDesc& program = input.program;
  const WeightsLayout weights = lay_out_weights(input.weights);
  uint64_t weights_bytes = 0;
  for (const TensorDesc& weight : program.weights)
    weights_bytes += static_cast<uint64_t>(storage_bytes(weight.dtype, num_elements(weight.shape)));
  std::string text =
      "{\n  " + field("model", json_string(program.model_name)) + ",\n  " + field("compiler", json_string("tcc " TCC_VERSION)) + ",\n";
  text += "  \"inputs\": " + json_list(program.functions[0].inputs, "  ", tensor_fields) + ",\n";
  text += "  \"outputs\": " + json_list(program.functions[0].outputs, "  ", tensor_fields) + ",\n";
  text += "  \"functions\": [\n";
  for (size_t f = 0; f < program.functions.size(); f++)
    text += function_text(program, program.functions[f]) + (f + 1 < program.functions.size() ? ",\n" : "\n");
  text += "  ],\n  " + field("accumulate", static_cast<uint64_t>(program.accumulate)) + ",\n";
  text += "  " + field("weights_bytes", weights_bytes) + ",\n";
  text += "  \"weights\": " + json_list(program.weights, "  ", tensor_fields) + ",\n";
  std::vector<StateTensor> state;
  for (const StateTensor& tensor : program.state.tensors) {
    if (!tensor.view) state.push_back(tensor);
  }
  text += "  " + field("state_bytes", static_cast<uint64_t>(program.state.state_bytes)) + ",\n  " +
          field("gradient_bytes", static_cast<uint64_t>(program.state.gradient_bytes)) + ",\n";
  text += "  \"state\": " + json_list(state, "  ", [&](const StateTensor& tensor) { return state_fields(program.state, tensor); }) + ",\n";
  text += "  \"sections\": " +
          json_list(program.state.sections, "  ",
                    [](const StateSection& section) {
                      return field("name", json_string(section.name)) + ", " + field("role", json_string(name_of(section.role))) + ", " +
                             field("dtype", json_string(name_of(section.dtype))) + ", " +
                             field("bytes", static_cast<uint64_t>(section.size_bytes));
                    }) +
          ",\n";
  text += "  \"scalars\": " +
          json_list(program.scalars, "  ",
                    [](const ScalarDesc& scalar) {
                      return field("name", json_string(scalar.name)) + ", " + field("dtype", json_string(name_of(scalar.dtype))) + ", " +
                             field("default", std::isnan(scalar.value) ? "null" : number(scalar.value));
                    }) +
          ",\n  \"targets\": [\n";
  for (size_t t = 0; t < program.targets.size(); t++)
    text += target_text(program, weights, program.targets[t]) + (t + 1 < program.targets.size() ? ",\n" : "\n");
  return text + "  ]\n}\n";
}

}  // namespace tcc::link
