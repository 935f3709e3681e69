// The C header of one model: all that a C program needs to run it, in one file.
//
// It repeats tcc/runtime/runtime.h (behind its include guard, so headers of several models go together), then adds what is particular:
// the name of the query function, names, shapes and sizes as constants, and inline functions whose parameters are typed pointers.
#include <stdio.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "runtime/embedded.h"
#include "tcc/link/link.h"

namespace tcc::link {
namespace {

// Text that can stand in a comment: nothing ends it, or begins another.
std::string for_comment(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const char last = result.empty() ? '\0' : result.back();
    if ((c == '/' && last == '*') || (c == '*' && last == '/')) result += ' ';
    result += static_cast<unsigned char>(c) < 32 ? '?' : c;
  }
  return result;
}

std::string c_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const unsigned char u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (u < 32 || u >= 127 || c == '?') {  // three octal digits end by themselves; `?` could be a trigraph
      result += {'\\', static_cast<char>('0' + (u >> 6)), static_cast<char>('0' + (u >> 3 & 7)), static_cast<char>('0' + (u & 7))};
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// Identifiers for tensors: unique, and none that C, C++ or the functions below use.
class Identifiers {
 public:
  std::string make(std::string_view name) {
    std::string id;
    for (const char c : name) id += std::isalnum(static_cast<unsigned char>(c)) && static_cast<unsigned char>(c) < 128 ? c : '_';
    if (id.empty() || std::isdigit(static_cast<unsigned char>(id[0])) || id[0] == '_') id = "t" + id;
    if (id.starts_with("tcc_") || id.starts_with("TCC_") || words().contains(id)) id += "_";
    std::string unique = id;
    // Constants are in upper case, so names that differ only in case count as equal.
    for (int i = 2; !used_.insert(upper(unique)).second; i++) unique = id + "_" + std::to_string(i);
    return unique;
  }

 private:
  static const std::set<std::string, std::less<>>& words() {
    static const std::set<std::string, std::less<>> words = {"alignas",
                                                             "alignof",
                                                             "and",
                                                             "and_eq",
                                                             "asm",
                                                             "auto",
                                                             "bitand",
                                                             "bitor",
                                                             "bool",
                                                             "break",
                                                             "case",
                                                             "catch",
                                                             "char",
                                                             "char16_t",
                                                             "char32_t",
                                                             "char8_t",
                                                             "class",
                                                             "compl",
                                                             "concept",
                                                             "const",
                                                             "const_cast",
                                                             "consteval",
                                                             "constexpr",
                                                             "constinit",
                                                             "continue",
                                                             "co_await",
                                                             "co_return",
                                                             "co_yield",
                                                             "decltype",
                                                             "default",
                                                             "delete",
                                                             "do",
                                                             "double",
                                                             "dynamic_cast",
                                                             "else",
                                                             "enum",
                                                             "explicit",
                                                             "export",
                                                             "extern",
                                                             "false",
                                                             "float",
                                                             "for",
                                                             "friend",
                                                             "goto",
                                                             "if",
                                                             "inline",
                                                             "int",
                                                             "long",
                                                             "mutable",
                                                             "namespace",
                                                             "new",
                                                             "noexcept",
                                                             "not",
                                                             "not_eq",
                                                             "nullptr",
                                                             "operator",
                                                             "or",
                                                             "or_eq",
                                                             "private",
                                                             "protected",
                                                             "public",
                                                             "register",
                                                             "reinterpret_cast",
                                                             "requires",
                                                             "restrict",
                                                             "return",
                                                             "short",
                                                             "signed",
                                                             "sizeof",
                                                             "static",
                                                             "static_assert",
                                                             "static_cast",
                                                             "struct",
                                                             "switch",
                                                             "template",
                                                             "this",
                                                             "thread_local",
                                                             "throw",
                                                             "true",
                                                             "try",
                                                             "typedef",
                                                             "typeid",
                                                             "typename",
                                                             "typeof",
                                                             "typeof_unqual",
                                                             "union",
                                                             "unsigned",
                                                             "using",
                                                             "virtual",
                                                             "void",
                                                             "volatile",
                                                             "wchar_t",
                                                             "while",
                                                             "xor",
                                                             "xor_eq",
                                                             "linux",
                                                             "unix",
                                                             "errno",
                                                             "NULL",
                                                             "EOF",
                                                             "size_t",
                                                             "int8_t",
                                                             "int16_t",
                                                             "int32_t",
                                                             "int64_t",
                                                             "uint8_t",
                                                             "uint16_t",
                                                             "uint32_t",
                                                             "uint64_t",
                                                             "instance",
                                                             "device",
                                                             "device_ordinal",
                                                             "workspace",
                                                             "workspace_bytes",
                                                             "stream",
                                                             "api",
                                                             "inputs",
                                                             "outputs",
                                                             "options"};
    return words;
  }
  std::set<std::string> used_;
};

const char* c_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return "float";
    case DType::f64: return "double";
    case DType::f16:
    case DType::bf16:
    case DType::u16: return "uint16_t";
    case DType::i8: return "int8_t";
    case DType::i16: return "int16_t";
    case DType::i32: return "int32_t";
    case DType::i64: return "int64_t";
    case DType::u32: return "uint32_t";
    case DType::u64: return "uint64_t";
    default: return "uint8_t";  // bool, u8, the 8-bit floats as bits, packed 4-bit integers
  }
}

std::string c_dtype(DType dtype) { return "TCC_" + upper(std::string(name_of(dtype))); }

struct Parameter {
  const TensorDesc* tensor;
  std::string id;
};

// One function as C sees it.
struct FunctionText {
  const FunctionDesc* function;
  std::string name;   // of the C function, without the prefix: `run` for the first
  std::string macro;  // what its constants begin with
  std::vector<Parameter> inputs, outputs;
};

class HeaderWriter {
 public:
  HeaderWriter(const ProgramDesc& program, std::string_view prefix) : program_(program), prefix_(prefix), macro_(upper(prefix_)) {
    // What the header itself defines; each function has a second one, `<name>_on`.
    for (const char* name : {"query", "api", "error", "options", "create_with", "create", "destroy", "run", "run_on", "save", "load"})
      names_.make(name);
    Identifiers setters;
    for (const ScalarDesc& scalar : program.scalars) names_.make("set_" + setters_.emplace_back(setters.make(scalar.name)));
    for (const FunctionDesc& function : program.functions) {
      FunctionText text;
      text.function = &function;
      const bool first = functions_.empty();
      text.name = first ? "run" : names_.make(function.name);
      names_.make(text.name + "_on");
      text.macro = macro_ + (first ? "" : "_" + upper(text.name));
      Identifiers ids;
      for (const TensorDesc& tensor : function.inputs) text.inputs.push_back({&tensor, ids.make(tensor.name)});
      for (const TensorDesc& tensor : function.outputs) text.outputs.push_back({&tensor, ids.make(tensor.name)});
      functions_.push_back(std::move(text));
    }
  }

  std::string write() {
    introduction();
    text_ += "\n#ifndef TCC_MODEL_" + macro_ + "_H\n#define TCC_MODEL_" + macro_ + "_H\n\n";
    text_ += "/* ---- the interface of all libraries that tcc makes ---- */\n\n";
    text_ += runtime::runtime_header();
    text_ += "\n/* ---- this model ---- */\n\n#include <string.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";
    text_ += "/* The library's table of functions; NULL for a version that it does not speak. */\n";
    // The common name is declared by the interface above.
    if (prefix_ != "tcc_model") text_ += "const tcc_api* " + prefix_ + "_query(uint32_t abi_version);\n";
    text_ += "\n";
    for (size_t f = 0; f < functions_.size(); f++) {
      const FunctionText& function = functions_[f];
      if (functions_.size() > 1) {
        text_ += "/* `" + for_comment(function.function->name) + "` */\n";
        text_ += "#define " + macro_ + "_FUNCTION_" + upper(names_of_.make(function.function->name)) + " " + std::to_string(f) + "\n";
      }
      constants(function.inputs, function.macro, "INPUT");
      constants(function.outputs, function.macro, "OUTPUT");
      workspace(f);
    }
    instance_functions();
    for (size_t f = 0; f < functions_.size(); f++) call_functions(f);
    state_functions();
    text_ += "\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
    return std::move(text_);
  }

 private:
  const FunctionText* find(std::string_view name) const {
    for (const FunctionText& function : functions_) {
      if (function.function->name == name) return &function;
    }
    return nullptr;
  }

  void introduction() {
    const FunctionText* step = find("step");
    text_ += "/* " + for_comment(program_.model_name) + ", compiled by tcc. Link with the library, or load it with dlopen.\n *\n";
    text_ += " *   tcc_instance* model;\n *   if (" + prefix_ + "_create(TCC_DEVICE_AUTO, &model)) puts(" + prefix_ + "_error());\n";
    if (step) {
      text_ += " *   " + prefix_ + "_load(model, \"state.safetensors\");   // goes on where _save stopped\n";
      for (const ScalarDesc& scalar : program_.scalars)
        text_ += " *   " + prefix_ + "_set_" + setter(scalar) + "(model, " + value_text(scalar.value) + ");\n";
      text_ += " *   if (" + prefix_ + "_step(model" + names(*step) + ")) puts(" + prefix_ + "_error());\n";
      text_ += " *   " + prefix_ + "_save(model, \"state.safetensors\");\n";
    }
    text_ += " *   if (" + prefix_ + "_run(model" + names(functions_[0]) + ")) puts(" + prefix_ + "_error());\n *   " + prefix_ +
             "_destroy(model);\n *\n";
    for (const FunctionText& function : functions_) {
      if (functions_.size() > 1) text_ += " * " + prefix_ + "_" + function.name + "\n";
      for (const bool input : {true, false}) {
        for (const Parameter& p : input ? function.inputs : function.outputs) {
          text_ += std::string(functions_.size() > 1 ? " *   " : " * ") + (input ? "input   " : "output  ") + p.id + ": `" +
                   for_comment(p.tensor->name) + "`, " + std::string(name_of(p.tensor->dtype)) + to_string(p.tensor->shape) +
                   (p.tensor->alignment ? ", at a multiple of " + std::to_string(p.tensor->alignment) : "") + "\n";
        }
      }
    }
    text_ += " */";
  }

  static std::string names(const FunctionText& function) {
    std::string text;
    for (const auto* list : {&function.inputs, &function.outputs}) {
      for (const Parameter& p : *list) text += ", " + p.id;
    }
    return text;
  }

  static std::string parameters(const FunctionText& function) {
    std::string text;
    for (const Parameter& p : function.inputs) text += std::string(", const ") + c_type(p.tensor->dtype) + "* " + p.id;
    for (const Parameter& p : function.outputs) text += std::string(", ") + c_type(p.tensor->dtype) + "* " + p.id;
    return text;
  }

  void constants(const std::vector<Parameter>& list, const std::string& macro, const std::string& role) {
    text_ += "#define " + macro + "_NUM_" + role + "S " + std::to_string(list.size()) + "\n";
    for (size_t i = 0; i < list.size(); i++) {
      const TensorDesc& tensor = *list[i].tensor;
      const std::string name = macro + "_" + role + "_" + upper(list[i].id);
      const int64_t elements = num_elements(tensor.shape);
      text_ += "#define " + name + " " + std::to_string(i) + "   /* index */\n";
      text_ += "#define " + name + "_NAME " + c_string(tensor.name) + "\n";
      text_ += "#define " + name + "_DTYPE " + c_dtype(tensor.dtype) + "\n";
      text_ += "#define " + name + "_RANK " + std::to_string(tensor.shape.size()) + "\n";
      for (size_t axis = 0; axis < tensor.shape.size(); axis++) {
        text_ += "#define " + name + "_DIM" + std::to_string(axis) + " " + std::to_string(tensor.shape[axis]) + "\n";
      }
      text_ += "#define " + name + "_ELEMENTS " + std::to_string(elements) + "\n";
      text_ += "#define " + name + "_BYTES " + std::to_string(storage_bytes(tensor.dtype, elements)) + "\n";
    }
    text_ += "\n";
  }

  uint64_t workspace_bytes(size_t f) const {
    uint64_t bytes = 0;
    for (const TargetDesc& target : program_.targets) bytes = std::max(bytes, target.functions[f].arena_bytes);
    return bytes;
  }

  void workspace(size_t f) {
    uint64_t bytes = workspace_bytes(f), alignment = 1;
    for (size_t other = 0; other < functions_.size(); other++) {
      const bool called_by_step = functions_[f].function->name == "step" && functions_[other].function->name == "accumulate";
      if (called_by_step) bytes = std::max(bytes, workspace_bytes(other));
    }
    for (const TargetDesc& target : program_.targets) alignment = std::max<uint64_t>(alignment, target.arena_alignment);
    text_ +=
        "/* Does for the workspace of " + prefix_ + "_" + functions_[f].name + "_on() on every device; the instance may need less. */\n";
    text_ += "#define " + functions_[f].macro + "_WORKSPACE_BYTES " + std::to_string(bytes) + "\n";
    text_ += "#define " + functions_[f].macro + "_WORKSPACE_ALIGNMENT " + std::to_string(alignment) + "\n\n";
  }

  void tensor_array(const char* array, const std::vector<Parameter>& list, bool input) {
    for (size_t i = 0; i < list.size(); i++) {
      const Shape& shape = list[i].tensor->shape;
      if (shape.empty()) continue;
      text_ += std::string("  static const int64_t ") + array + "_shape" + std::to_string(i) + "[] = {";
      for (size_t axis = 0; axis < shape.size(); axis++) text_ += (axis ? ", " : "") + std::to_string(shape[axis]);
      text_ += "};\n";
    }
    // An array of no elements is not C.
    text_ += std::string("  tcc_tensor ") + array + "[" + std::to_string(std::max<size_t>(1, list.size())) + "] = {\n";
    for (size_t i = 0; i < list.size(); i++) {
      const TensorDesc& tensor = *list[i].tensor;
      const std::string shape = tensor.shape.empty() ? "NULL" : std::string(array) + "_shape" + std::to_string(i);
      text_ += std::string("    {") + (input ? "(void*)" : "") + list[i].id + ", " + shape + ", NULL, " +
               std::to_string(tensor.shape.size()) + ", " + c_dtype(tensor.dtype) + ", device, device_ordinal, {0, 0}},\n";
    }
    if (list.empty()) text_ += "    {NULL, NULL, NULL, 0, 0, device, device_ordinal, {0, 0}},\n";
    text_ += "  };\n";
  }

  void instance_functions() {
    text_ += "static inline const tcc_api* " + prefix_ + "_api(void) { return " + prefix_ + "_query(TCC_ABI_VERSION); }\n\n";
    text_ += "/* The message of the last failure in this thread. */\n";
    text_ += "static inline const char* " + prefix_ + "_error(void) {\n  const tcc_api* api = " + prefix_ + "_api();\n";
    text_ += "  return api ? api->last_error() : \"the library speaks another version of the interface than this header\";\n}\n\n";
    text_ += "/* The default options, to change and hand to " + prefix_ +
             "_create_with: threads, the path of the weights, a log, ... (tcc_create_options). */\n";
    text_ += "static inline tcc_create_options " + prefix_ + "_options(void) {\n  tcc_create_options options;\n";
    text_ += "  memset(&options, 0, sizeof options);\n  options.struct_size = (uint32_t)sizeof options;\n  return options;\n}\n\n";
    text_ += "static inline int " + prefix_ + "_create_with(const tcc_create_options* options, tcc_instance** instance) {\n";
    text_ += "  const tcc_api* api = " + prefix_ + "_api();\n  return api ? api->create(options, instance) : TCC_INTERNAL_ERROR;\n}\n\n";
    text_ += "/* device: TCC_DEVICE_AUTO, TCC_DEVICE_CPU or TCC_DEVICE_CUDA. */\n";
    text_ += "static inline int " + prefix_ + "_create(int32_t device, tcc_instance** instance) {\n";
    text_ += "  tcc_create_options options = " + prefix_ + "_options();\n  options.device = device;\n  return " + prefix_ +
             "_create_with(&options, instance);\n}\n\n";
    text_ += "static inline void " + prefix_ + "_destroy(tcc_instance* instance) { " + prefix_ + "_api()->destroy(instance); }\n\n";
  }

  // The typed pair of functions for one function of the library: on any memory, and on the host's.
  void call_functions(size_t f) {
    const FunctionText& function = functions_[f];
    const std::string& model_name = function.function->name;
    const std::string name = prefix_ + "_" + function.name;
    std::string call = "run(instance, ", last = "stream)", see = "run";
    if (model_name == "step") {
      call = "step(instance, ", last = "stream, NULL)", see = "step";
    } else if (f > 0) {
      call = "call(instance, " + std::to_string(f) + ", ", last = "stream, NULL)", see = "call";
    }
    text_ += "/* " + purpose(f) + ".";
    const bool has_tensors = !function.inputs.empty() || !function.outputs.empty();
    if (has_tensors) text_ += " `device` says where all of the pointers point: TCC_DEVICE_CPU or TCC_DEVICE_CUDA.";
    text_ += "\n";
    text_ += " * workspace and stream may be NULL; see tcc_api." + see + ". */\n";
    text_ +=
        "static inline int " + name + "_on(tcc_instance* instance, int32_t device, int32_t device_ordinal" + parameters(function) + ",\n";
    text_ += "    void* workspace, uint64_t workspace_bytes, void* stream) {\n";
    tensor_array("inputs", function.inputs, true);
    tensor_array("outputs", function.outputs, false);
    text_ += "  return " + prefix_ + "_api()->" + call + "inputs, " + std::to_string(function.inputs.size()) + ", outputs, " +
             std::to_string(function.outputs.size()) + ", workspace, workspace_bytes, " + last + ";\n}\n\n";
    text_ += has_tensors ? "/* The same on tensors in the host's memory, whatever the device; the outputs are ready on return. */\n"
                         : "/* The same on the default stream. */\n";
    text_ += "static inline int " + name + "(tcc_instance* instance" + parameters(function) + ") {\n";
    text_ += "  return " + name + "_on(instance, TCC_DEVICE_CPU, 0" + names(function) + ", NULL, 0, NULL);\n}\n";
    if (f + 1 < functions_.size()) text_ += "\n";
  }

  std::string purpose(size_t f) const {
    const std::string& name = functions_[f].function->name;
    if (name == "step" && program_.accumulate > 1)
      return "One of the " + std::to_string(program_.accumulate) + " micro-batches of a training step; the last one updates";
    if (name == "step") return "One training step: forward, backward and update";
    if (name == "accumulate") return "Adds to the gradients what one micro-batch gives; " + prefix_ + "_step calls it";
    if (!find("step")) return f == 0 ? "One run" : "One run of `" + for_comment(name) + "`";
    if (name == "forward") return "The first part of a step: the loss, and what backward needs";
    if (name == "backward") return "The second part: the gradients, which stay in the instance's state";
    if (name == "update") return "The third part: applies the gradients";
    return f == 0 ? "One run" : "One run of `" + for_comment(name) + "`";
  }

  const std::string& setter(const ScalarDesc& scalar) const { return setters_.at(static_cast<size_t>(&scalar - program_.scalars.data())); }

  static std::string value_text(double value) {
    char text[32];
    snprintf(text, sizeof text, "%.9g", value);
    return text;
  }

  void state_functions() {
    if (program_.scalars.empty() && program_.state.tensors.empty()) return;
    for (const ScalarDesc& scalar : program_.scalars) {
      const std::string value = std::isnan(scalar.value) ? "which no guard compares" : value_text(scalar.value);
      text_ += "\n/* `" + for_comment(scalar.name) + "`, " + value + " until it is set. */\n";
      text_ += "static inline int " + prefix_ + "_set_" + setter(scalar) + "(tcc_instance* instance, double value) {\n";
      text_ += "  return " + prefix_ + "_api()->set_scalar(instance, " + c_string(scalar.name) + ", value);\n}\n";
    }
    if (program_.state.tensors.empty()) return;
    text_ += std::string("\n/* ") + (find("step") ? "Parameters and optimizer state" : "What the model changes when it runs") +
             ", to and from a safetensors file. More: tcc_api.read_state, section_info. */\n";
    text_ += "static inline int " + prefix_ + "_save(tcc_instance* instance, const char* path) {\n";
    text_ += "  return " + prefix_ + "_api()->save_state(instance, path);\n}\n";
    text_ += "static inline int " + prefix_ + "_load(tcc_instance* instance, const char* path) {\n";
    text_ += "  return " + prefix_ + "_api()->load_state(instance, path, 0);\n}\n";
  }

  const ProgramDesc& program_;
  const std::string prefix_, macro_;
  Identifiers names_, names_of_;
  std::vector<std::string> setters_;  // of the scalars
  std::vector<FunctionText> functions_;
  std::string text_;
};

}  // namespace

std::string write_header(const ProgramDesc& program, std::string_view symbol_prefix) {
  return HeaderWriter(program, symbol_prefix).write();
}

}  // namespace tcc::link
