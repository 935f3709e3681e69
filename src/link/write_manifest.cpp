// The manifest: what is in a library, as JSON, in a fixed order and one line per item, so that two of them can be compared by diff.
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
         field("bytes", static_cast<uint64_t>(storage_bytes(tensor.dtype, num_elements(tensor.shape))));
}

std::string target_text(const TargetDesc& target) {
  const bool cuda = target.kind == TargetKind::cuda;
  std::vector<uint64_t> num_launches(target.kernels.size());
  for (const LaunchDesc& launch : target.launches) {
    if (launch.kind == LaunchKind::kernel) num_launches[launch.kernel]++;
  }
  std::string text = "    {\n      " + field("target", json_string(cuda ? "cuda" : "cpu")) + ",\n";
  if (!cuda) {
    text += "      \"levels\": [";
    for (size_t i = 0; i < target.levels.size(); i++)
      text += (i ? ", " : "") + json_string("x86-64-v" + std::to_string(static_cast<uint32_t>(target.levels[i])));
    text += "],\n";
  }
  text += "      " + field("peak_bytes", target.arena_bytes) + ",\n      " + field("sum_of_buffers_bytes", target.sum_of_buffers) + ",\n";
  text += "      " + field("num_kernels", target.kernels.size()) + ",\n      " + field("num_launches", target.launches.size()) + ",\n";
  size_t k = 0;
  text += "      \"kernels\": " + json_list(target.kernels, "      ", [&](const KernelDesc& kernel) {
            std::string fields = field("name", json_string(kernel.name)) + ", " + field("launches", num_launches[k++]);
            if (cuda) fields += ", " + field("threads", kernel.threads) + ", " + field("shared_bytes", kernel.shared_bytes);
            return fields;
          });
  text += ",\n      \"launches\": " + json_list(target.launches, "      ", [&](const LaunchDesc& launch) {
            std::string fields = field("label", json_string(launch.label)) + ", ";
            if (launch.kind == LaunchKind::kernel) {
              fields += field("kernel", json_string(target.kernels[launch.kernel].name)) + ", " + field("grid", launch.grid);
            } else {
              fields += field("kernel", json_string(launch.kind == LaunchKind::copy ? "copy" : "fill")) + ", " +
                        field("bytes", launch.size_bytes);
            }
            fields += ", \"buffers\": [";
            for (size_t i = 0; i < launch.arguments.size(); i++) {
              const std::string& name = target.buffers[launch.arguments[i]].name;
              fields += (i ? ", " : "") + json_string(name.empty() ? "#" + std::to_string(launch.arguments[i]) : name);
            }
            return fields + "]";
          });
  return text + "\n    }";
}

}  // namespace

std::string write_manifest(const ProgramDesc& program) {
  uint64_t weights_bytes = 0;
  for (const TensorDesc& weight : program.weights)
    weights_bytes += static_cast<uint64_t>(storage_bytes(weight.dtype, num_elements(weight.shape)));
  std::string text =
      "{\n  " + field("model", json_string(program.model_name)) + ",\n  " + field("compiler", json_string("tcc " TCC_VERSION)) + ",\n";
  text += "  \"inputs\": " + json_list(program.inputs, "  ", tensor_fields) + ",\n";
  text += "  \"outputs\": " + json_list(program.outputs, "  ", tensor_fields) + ",\n";
  text += "  " + field("weights_bytes", weights_bytes) + ",\n";
  text += "  \"weights\": " + json_list(program.weights, "  ", tensor_fields) + ",\n  \"targets\": [\n";
  for (size_t t = 0; t < program.targets.size(); t++)
    text += target_text(program.targets[t]) + (t + 1 < program.targets.size() ? ",\n" : "\n");
  return text + "  ]\n}\n";
}

}  // namespace tcc::link
