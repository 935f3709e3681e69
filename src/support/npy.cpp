// Reading and writing .npy: a magic word, a version, a header that is the text of a Python dictionary, then the elements.

#include "tcc/support/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "support/bytes.h"
#include "support/npy_header.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"
#include "tcc/support/integer_math.h"

namespace tcc {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kHeaderAlignment = 64;

struct TypeCode {
  DType dtype;
  std::string_view code;  ///< without the byte order
};
constexpr TypeCode kTypeCodes[] = {
    {DType::f16, "f2"}, {DType::f32, "f4"}, {DType::f64, "f8"}, {DType::i8, "i1"},  {DType::i16, "i2"}, {DType::i32, "i4"},
    {DType::i64, "i8"}, {DType::u8, "u1"},  {DType::u16, "u2"}, {DType::u32, "u4"}, {DType::u64, "u8"}, {DType::boolean, "b1"},
};

[[noreturn]] void fail_malformed(const std::string& where, const std::string& reason) {
  throw Error(ExitCode::usage, "malformed-file", where, "not a .npy array: " + reason);
}

struct Header {
  std::string descr;  ///< the byte order (`<`, `>`, `|`, `=`) and the type code
  bool fortran_order = false;
  Shape shape;
};

/// Reads the dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Header parse() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr") {
        if (peek() == '[') {
          throw Error(ExitCode::usage, "unsupported-dtype", where_, "the array holds records, tcc reads plain numbers only");
        }
        header.descr = quoted();
        has_descr = true;
      } else if (key == "fortran_order") {
        header.fortran_order = boolean();
        has_order = true;
      } else if (key == "shape") {
        header.shape = tuple();
        has_shape = true;
      } else {
        fail_malformed(where_, "its header has an unknown key `" + key + "`");
      }
      if (!accept(',') && peek() != '}') bad();
    }
    skip_blanks();
    if (!text_.empty() || !has_descr || !has_order || !has_shape) bad();
    return header;
  }

 private:
  [[noreturn]] void bad() const { fail_malformed(where_, "its header is not a dictionary with `descr`, `fortran_order` and `shape`"); }
  void skip_blanks() {
    while (!text_.empty() && std::string_view(" \t\r\n").find(text_[0]) != std::string_view::npos) text_.remove_prefix(1);
  }
  char peek() {
    skip_blanks();
    return text_.empty() ? '\0' : text_[0];
  }
  bool accept(char c) {
    if (peek() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad();
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') bad();
    const size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) bad();
    std::string result(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return result;
  }
  bool boolean() {
    skip_blanks();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      return word == "True";
    }
    bad();
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      int64_t extent = 0;
      skip_blanks();
      const auto result = std::from_chars(text_.data(), text_.data() + text_.size(), extent);
      if (result.ec != std::errc() || extent < 0) bad();
      text_.remove_prefix(static_cast<size_t>(result.ptr - text_.data()));
      if (!text_.empty() && text_[0] == 'L') text_.remove_prefix(1);  // Python 2 wrote long integers so
      shape.push_back(extent);
      if (!accept(',') && peek() != ')') bad();
    }
    return shape;
  }

  std::string_view text_;
  const std::string& where_;
};

DType dtype_of(const std::string& descr, const std::string& where) {
  if (descr.size() >= 2) {
    for (const TypeCode& row : kTypeCodes) {
      if (row.code == std::string_view(descr).substr(1)) return row.dtype;
    }
  }
  const bool raw = descr.size() >= 2 && descr[1] == 'V';
  throw Error(
      ExitCode::usage, "unsupported-dtype", where, "the array has the NumPy type `" + descr + "`, which tcc doesn't read",
      raw ? "NumPy saves bf16, 8-bit floats and 4-bit integers as raw bytes without their type; save a TensorProto (.pb) instead" : "");
}

/// A copy with every element's bytes in the other order.
Tensor swapped(const Tensor& tensor) {
  Tensor result(tensor.dtype(), tensor.shape());
  const size_t width = static_cast<size_t>(size_bytes(tensor.dtype()));
  const size_t size = static_cast<size_t>(tensor.size_bytes());
  for (size_t at = 0; at < size; at += width)
    std::reverse_copy(tensor.bytes() + at, tensor.bytes() + at + width, result.mutable_bytes() + at);
  return result;
}

/// A copy in C order of elements that lie in Fortran order (the first axis fastest); `tensor` has the true shape.
Tensor from_fortran_order(const Tensor& tensor) {
  Tensor result(tensor.dtype(), tensor.shape());
  const size_t width = static_cast<size_t>(size_bytes(tensor.dtype()));
  const Shape& shape = tensor.shape();
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  std::vector<int64_t> index(shape.size(), 0);
  int64_t source = 0;
  const int64_t count = tensor.count();
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(result.mutable_bytes() + static_cast<size_t>(i) * width, tensor.bytes() + static_cast<size_t>(source) * width, width);
    // Steps to the next index in C order.
    for (size_t axis = shape.size(); axis-- > 0;) {
      source += strides[axis];
      if (++index[axis] < shape[axis]) break;
      source -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return result;
}

}  // namespace

bool npy_has(DType dtype) {
  return std::any_of(std::begin(kTypeCodes), std::end(kTypeCodes), [&](const TypeCode& row) { return row.dtype == dtype; });
}

Tensor read_npy(const std::string& path) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  return read_npy(file->bytes(), file, path);
}

Tensor read_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& where) {
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) fail_malformed(where, "it doesn't begin as one");
  const int version = std::to_integer<int>(bytes[6]);
  if (version < 1 || version > 3) fail_malformed(where, "its format version is " + std::to_string(version) + ", known are 1 to 3");
  if (version > 1 && bytes.size() < 12) fail_malformed(where, "it ends inside its header");
  const size_t start = version == 1 ? 10 : 12;
  const size_t header_size = version == 1 ? read_integer<uint16_t>(bytes, 8) : read_integer<uint32_t>(bytes, 8);
  if (header_size > bytes.size() - start) fail_malformed(where, "it ends inside its header");

  Header header = HeaderParser({reinterpret_cast<const char*>(bytes.data()) + start, header_size}, where).parse();
  const DType dtype = dtype_of(header.descr, where);
  const std::span<const std::byte> data = bytes.subspan(start + header_size);
  const int64_t expected = storage_bytes(dtype, num_elements(header.shape));
  if (static_cast<int64_t>(data.size()) != expected) {
    fail_malformed(where, "it has " + std::to_string(data.size()) + " bytes of data, " + std::string(name_of(dtype)) +
                              to_string(header.shape) + " needs " + std::to_string(expected));
  }
  const bool big_endian = header.descr[0] == '>' && size_bytes(dtype) > 1;
  Tensor result = tensor_from_file(dtype, std::move(header.shape), data, std::move(owner));
  if (big_endian) result = swapped(result);
  if (header.fortran_order && result.rank() > 1) result = from_fortran_order(result);
  return result;
}

std::string npy_header(const Tensor& tensor, const std::string& where) {
  const auto* row =
      std::find_if(std::begin(kTypeCodes), std::end(kTypeCodes), [&](const TypeCode& code) { return code.dtype == tensor.dtype(); });
  if (row == std::end(kTypeCodes)) {
    throw Error(ExitCode::usage, "unsupported-dtype", where,
                "found a tensor of " + std::string(name_of(tensor.dtype())) + ", which .npy doesn't have",
                "save it as a TensorProto (.pb) instead");
  }
  std::string shape;
  for (int64_t extent : tensor.shape()) shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
  if (tensor.rank() == 1) shape += ",";
  std::string text = "{'descr': '" + std::string(size_bytes(tensor.dtype()) == 1 ? "|" : "<") + std::string(row->code) +
                     "', 'fortran_order': False, 'shape': (" + shape + "), }";
  const size_t total = align_up(10 + text.size() + 1, kHeaderAlignment);
  text.resize(total - 10 - 1, ' ');
  text += '\n';
  check(text.size() <= 0xffff, "a tensor's rank is too large for .npy");
  std::string header(kMagic);
  header += std::string_view("\x01\x00", 2);
  append_integer<uint16_t>(header, static_cast<uint16_t>(text.size()));
  return header + text;
}

void write_npy(const std::string& path, const Tensor& tensor) {
  const std::string header = npy_header(tensor, path);
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(header.data(), header.size())),
                                               {tensor.bytes(), static_cast<size_t>(tensor.size_bytes())}};
  write_file_atomically(path, pieces);
}

}  // namespace tcc
