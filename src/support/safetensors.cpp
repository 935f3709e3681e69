// Reading and writing safetensors files; the header says what is in them.

#include "tcc/support/safetensors.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "support/bytes.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"
#include "tcc/support/integer_math.h"
#include "tcc/support/text.h"

namespace tcc {
namespace {

using nlohmann::json;

constexpr const char* kMetadata = "__metadata__";
constexpr const char* kPackedPrefix = "tcc.packed.";
constexpr size_t kDataAlignment = 64;

struct DTypeName {
  DType dtype;
  std::string_view name;
};
constexpr DTypeName kDTypeNames[] = {
    {DType::f32, "F32"},
    {DType::f64, "F64"},
    {DType::f16, "F16"},
    {DType::bf16, "BF16"},
    {DType::i8, "I8"},
    {DType::i16, "I16"},
    {DType::i32, "I32"},
    {DType::i64, "I64"},
    {DType::u8, "U8"},
    {DType::u16, "U16"},
    {DType::u32, "U32"},
    {DType::u64, "U64"},
    {DType::boolean, "BOOL"},
    {DType::f8e4m3fn, "F8_E4M3"},
    {DType::f8e4m3fnuz, "F8_E4M3FNUZ"},
    {DType::f8e5m2, "F8_E5M2"},
    {DType::f8e5m2fnuz, "F8_E5M2FNUZ"},
};

[[noreturn]] void fail_malformed(const std::string& path, const std::string& reason) {
  throw Error(ExitCode::usage, "malformed-file", path, "not a safetensors file: " + reason);
}

/// Parses the header. A name that stands twice would silently hide a tensor, so it is an error.
json parse_header(std::string_view text, const std::string& path) {
  std::set<std::string> names;
  std::string repeated;
  const auto note_names = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key && depth == 1 && !names.insert(value.get<std::string>()).second) {
      repeated = value.get<std::string>();
    }
    return true;
  };
  json header;
  try {
    header = json::parse(text, note_names);
  } catch (const json::exception& error) {
    fail_malformed(
        path, "its header is not JSON (at byte " + [&] {
          const auto* parse_error = dynamic_cast<const json::parse_error*>(&error);
          return std::to_string(8 + (parse_error != nullptr ? parse_error->byte : 0));
        }() + ")");
  }
  if (!header.is_object()) fail_malformed(path, "its header is not a JSON object");
  if (!repeated.empty()) fail_malformed(path, "`" + repeated + "` is in its header twice");
  return header;
}

/// A list of non-negative integers, or nothing.
std::optional<std::vector<int64_t>> integers(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return std::nullopt;
  std::vector<int64_t> values;
  for (const json& item : *found) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return std::nullopt;
    values.push_back(item.get<int64_t>());
  }
  return values;
}

/// Undoes pack: "i4[3, 5]" -> dtype and shape, or nothing.
std::optional<std::pair<DType, Shape>> parse_packed(const std::string& text) {
  const size_t bracket = text.find('[');
  const auto dtype = parse_dtype(text.substr(0, bracket));
  if (bracket == std::string::npos || !dtype || size_bits(*dtype) >= 8) return std::nullopt;
  const json shape = json::parse(text.substr(bracket), nullptr, false);
  if (auto values = integers(json{{"shape", shape}}, "shape")) return std::pair(*dtype, std::move(*values));
  return std::nullopt;
}

}  // namespace

TensorFile read_safetensors(const std::string& path) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() < 8) fail_malformed(path, "it has " + std::to_string(bytes.size()) + " bytes, fewer than the length of a header");
  const uint64_t header_size = read_integer<uint64_t>(bytes, 0);
  if (header_size > bytes.size() - 8) {
    fail_malformed(path, "its header should have " + std::to_string(header_size) + " bytes, more than the file");
  }
  const json header = parse_header(file->text().substr(8, header_size), path);
  const std::span<const std::byte> data = bytes.subspan(8 + header_size);

  TensorFile result;
  if (const auto metadata = header.find(kMetadata); metadata != header.end()) {
    if (!metadata->is_object()) fail_malformed(path, "`__metadata__` is not an object of texts");
    for (const auto& [key, value] : metadata->items()) {
      if (!value.is_string()) fail_malformed(path, "`__metadata__` is not an object of texts");
      result.metadata[key] = value.get<std::string>();
    }
  }

  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) continue;
    const std::string what = "tensor `" + name + "` ";
    if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string()) fail_malformed(path, what + "has no dtype");
    const std::string dtype_name = entry["dtype"].get<std::string>();
    const auto* known =
        std::find_if(std::begin(kDTypeNames), std::end(kDTypeNames), [&](const DTypeName& row) { return row.name == dtype_name; });
    if (known == std::end(kDTypeNames)) {
      throw Error(ExitCode::usage, "unsupported-dtype", path, what + "has dtype `" + dtype_name + "`, which tcc doesn't know");
    }
    DType dtype = known->dtype;
    auto shape = integers(entry, "shape");
    if (!shape) fail_malformed(path, what + "has no shape of non-negative integers");
    const auto offsets = integers(entry, "data_offsets");
    if (!offsets || offsets->size() != 2) fail_malformed(path, what + "has no two data offsets");
    const int64_t begin = (*offsets)[0];
    const int64_t end = (*offsets)[1];
    if (begin > end || end > static_cast<int64_t>(data.size())) {
      fail_malformed(
          path, what + "has data offsets " + to_string(*offsets) + ", outside of the " + std::to_string(data.size()) + " bytes of data");
    }
    if (end - begin != storage_bytes(dtype, num_elements(*shape))) {
      fail_malformed(path, what + "has " + std::to_string(end - begin) + " bytes, " + std::string(name_of(dtype)) + to_string(*shape) +
                               " needs " + std::to_string(storage_bytes(dtype, num_elements(*shape))));
    }
    if (const auto packed = result.metadata.find(kPackedPrefix + name); packed != result.metadata.end()) {
      auto real = parse_packed(packed->second);
      if (!real || dtype != DType::u8 || storage_bytes(real->first, num_elements(real->second)) != end - begin) {
        fail_malformed(path, what + "is said to be `" + packed->second + "`, which its bytes are not");
      }
      dtype = real->first;
      shape = std::move(real->second);
      result.metadata.erase(packed);
    }
    ranges.emplace_back(begin, end);
    result.tensors[name] =
        tensor_from_file(dtype, std::move(*shape), data.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), file);
  }

  std::sort(ranges.begin(), ranges.end());
  int64_t covered = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != covered)
      fail_malformed(path, "its tensors leave a hole or overlap at byte " + std::to_string(std::min(begin, covered)) + " of the data");
    covered = end;
  }
  if (covered != static_cast<int64_t>(data.size())) {
    fail_malformed(path, "it has " + std::to_string(data.size()) + " bytes of data, its tensors " + std::to_string(covered));
  }
  return result;
}

void write_safetensors(OutputFiles& outputs, const std::string& path, const std::map<std::string, Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  // Wide elements first: then each tensor begins at a multiple of its element's size, and a reader need not copy it.
  std::vector<const std::pair<const std::string, Tensor>*> order;
  for (const auto& entry : tensors) {
    check(entry.second.defined() && entry.first != kMetadata, "a tensor without value or with a reserved name is saved");
    order.push_back(&entry);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return size_bits(a->second.dtype()) > size_bits(b->second.dtype()); });

  json header = json::object();
  json texts = json::object();
  for (const auto& [key, value] : metadata) texts[key] = value;
  std::vector<std::span<const std::byte>> pieces(1);
  int64_t offset = 0;
  for (const auto* entry : order) {
    const Tensor& tensor = entry->second;
    const int64_t size = tensor.size_bytes();
    const auto* known =
        std::find_if(std::begin(kDTypeNames), std::end(kDTypeNames), [&](const DTypeName& row) { return row.dtype == tensor.dtype(); });
    json& row = header[entry->first];
    if (known != std::end(kDTypeNames)) {
      row = {{"dtype", known->name}, {"shape", tensor.shape()}};
    } else {
      row = {{"dtype", "U8"}, {"shape", {size}}};
      texts[kPackedPrefix + entry->first] = std::string(name_of(tensor.dtype())) + to_string(tensor.shape());
    }
    row["data_offsets"] = {offset, offset + size};
    offset += size;
    pieces.emplace_back(tensor.bytes(), static_cast<size_t>(size));
  }
  if (!texts.empty()) header[kMetadata] = std::move(texts);

  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    throw Error(ExitCode::model, "malformed-name", path, "a tensor's name is not UTF-8 and can't be saved");
  }
  text.resize(align_up(text.size() + 8, kDataAlignment) - 8, ' ');
  std::string start;
  append_integer<uint64_t>(start, text.size());
  start += text;
  pieces[0] = std::as_bytes(std::span(start.data(), start.size()));
  outputs.write(path, pieces);
}

void write_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  OutputFiles outputs;
  write_safetensors(outputs, path, tensors, metadata);
  outputs.commit();
}

}  // namespace tcc
