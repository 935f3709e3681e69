// .npy, .npz and safetensors: what other programs wrote (data/), round trips of every dtype, and files that are damaged.
#include <gtest/gtest.h>

#include <cstring>

#include "scratch.h"
#include "tcc/support/files.h"
#include "tcc/support/npy.h"
#include "tcc/support/random.h"
#include "tcc/support/safetensors.h"

namespace tcc {
namespace {

using testing::error_of;
using testing::ScratchFolder;

const std::string kData = std::string(TCC_TEST_DATA_DIR) + "/";

std::vector<double> as_doubles(const Tensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.count(); ++i) values.push_back(tensor.as_double(i));
  return values;
}
using Doubles = std::vector<double>;

Tensor example(DType dtype, Shape shape) { return random_integers(dtype, std::move(shape), RandomStream{1}, -8, 8); }

const std::vector<Shape> kShapes = {{}, {5}, {0}, {2, 3}, {3, 0, 2}, {2, 1, 3}};

/// A .npy from the text of its header and its data.
std::string npy(const std::string& header, const std::string& data, int version = 1) {
  std::string text = "\x93NUMPY" + std::string(1, static_cast<char>(version)) + std::string(1, '\0');
  const uint32_t size = static_cast<uint32_t>(header.size());
  text.append(reinterpret_cast<const char*>(&size), version == 1 ? 2 : 4);
  return text + header + data;
}

/// A safetensors file from the text of its header and its data.
std::string safetensors(const std::string& header, const std::string& data) {
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + data;
}

TEST(Npy, RoundTrips) {
  ScratchFolder folder;
  int files = 0;
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    for (const Shape& shape : kShapes) {
      const Tensor tensor = example(dtype, shape);
      if (!npy_has(dtype)) {
        EXPECT_NE(error_of(ExitCode::usage, [&] { write_npy(folder / "a.npy", tensor); }).find("unsupported-dtype"), std::string::npos);
        continue;
      }
      write_npy(folder / "a.npy", tensor);
      EXPECT_TRUE(read_npy(folder / "a.npy").same_bytes(tensor)) << name_of(dtype) << to_string(shape);
      ++files;
    }
  }
  EXPECT_EQ(files, 12 * 6);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.npy"});
}

TEST(Npy, WritesWhatNumPyWrites) {
  ScratchFolder folder;
  write_npy(folder / "a.npy", Tensor::from_ints({1}));
  std::string header = "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }";
  header.resize(128 - 10 - 1, ' ');
  EXPECT_EQ(read_text_file(folder / "a.npy"), npy(header + "\n", std::string("\1\0\0\0\0\0\0\0", 8)));
}

TEST(Npy, OtherVersionsAndHeaders) {
  ScratchFolder folder;
  const auto read = [&](const std::string& text) {
    write_file_atomically(folder / "a.npy", text);
    return read_npy(folder / "a.npy");
  };
  const std::string two("\1\0\2\0", 4);
  for (const int version : {1, 2, 3}) {
    EXPECT_EQ(as_doubles(read(npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }", two, version))), (Doubles{1, 2}));
  }
  // Misaligned data, other blanks, quotes and order, the long integers of Python 2.
  EXPECT_EQ(as_doubles(read(npy("{ \"shape\" : (1L,2) ,'descr':'<i2','fortran_order':True}\n \n", two))), (Doubles{1, 2}));
  EXPECT_EQ(as_doubles(read(npy("{'descr': '>u2', 'fortran_order': False, 'shape': (2,)}", two))), (Doubles{256, 512}));
  EXPECT_EQ(as_doubles(read(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2)}", two))), (Doubles{1, 2, 0, 0}));
  // A bool is 0 or 1, whatever its byte.
  EXPECT_EQ(read(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (4,)}", two)).data<uint8_t>()[2], 1);
}

TEST(Npy, Errors) {
  ScratchFolder folder;
  const std::string path = folder / "a.npy";
  const auto error = [&](const std::string& text) {
    write_file_atomically(path, text);
    const std::string message = error_of(ExitCode::usage, [&] { read_npy(path); });
    EXPECT_TRUE(message.starts_with(path + ": error: ")) << message;
    return message.substr(path.size() + 9);
  };
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  EXPECT_EQ(error(""), "not a .npy array: it doesn't begin as one [malformed-file]");
  EXPECT_EQ(error("PK\3\4 something else"), "not a .npy array: it doesn't begin as one [malformed-file]");
  EXPECT_EQ(error(npy(good, "1234567")), "not a .npy array: it has 7 bytes of data, f32[2] needs 8 [malformed-file]");
  EXPECT_EQ(error(npy(good, "123456789")), "not a .npy array: it has 9 bytes of data, f32[2] needs 8 [malformed-file]");
  EXPECT_EQ(error(npy(good, "12345678", 4)), "not a .npy array: its format version is 4, known are 1 to 3 [malformed-file]");
  EXPECT_EQ(error(npy(good, "").substr(0, 40)), "not a .npy array: it ends inside its header [malformed-file]");
  EXPECT_EQ(error(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }", "")),
            "not a .npy array: it has 0 bytes of data, f32[99999999999, 99999999999] needs 9223372036854775807 [malformed-file]");
  EXPECT_EQ(error(npy("{'descr': '<f4', 'more': 1}", "")), "not a .npy array: its header has an unknown key `more` [malformed-file]");
  EXPECT_NE(error(npy("{'descr': '<V2', 'fortran_order': False, 'shape': ()}", "ab")).find("help: NumPy saves bf16"), std::string::npos);
  EXPECT_EQ(error(npy("{'descr': '<c8', 'fortran_order': False, 'shape': ()}", "12345678")),
            "the array has the NumPy type `<c8`, which tcc doesn't read [unsupported-dtype]");
  EXPECT_EQ(error(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "1234")),
            "the array holds records, tcc reads plain numbers only [unsupported-dtype]");
  for (const char* header :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': 1, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}", "{'descr': '<f4, 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"}) {
    EXPECT_NE(error(npy(header, "12345678")).find("not a .npy array: its header "), std::string::npos) << header;
  }
  error_of(ExitCode::environment, [&] { read_npy(folder / "none.npy"); });
}

TEST(Npz, ReadsWhatNumPyWrote) {
  const Doubles six = {0, 1, 2, 3, 4, 5};
  std::map<std::string, Tensor> arrays = read_npz(kData + "numpy_deflated.npz");
  EXPECT_EQ(arrays.size(), 7u);
  EXPECT_EQ(arrays.at("c").dtype(), DType::i64);
  EXPECT_EQ(arrays.at("c").shape(), (Shape{2, 3}));
  EXPECT_EQ(as_doubles(arrays.at("c")), six);
  EXPECT_EQ(arrays.at("f").shape(), (Shape{2, 3}));
  EXPECT_EQ(as_doubles(arrays.at("f")), six);
  EXPECT_EQ(as_doubles(arrays.at("half")), (Doubles{0.5, -2}));
  EXPECT_EQ(arrays.at("flag").dtype(), DType::boolean);
  EXPECT_EQ(as_doubles(arrays.at("flag")), (Doubles{1, 0, 1}));
  EXPECT_EQ(arrays.at("scalar").rank(), 0);
  EXPECT_EQ(as_doubles(arrays.at("scalar")), (Doubles{2.5}));
  EXPECT_EQ(as_doubles(arrays.at("big")), (Doubles{1, -2}));
  EXPECT_EQ(as_doubles(arrays.at("zeros")), Doubles(1000, 0));
  arrays = read_npz(kData + "numpy_stored.npz");
  EXPECT_EQ(as_doubles(arrays.at("c")), six);
  EXPECT_EQ(arrays.at("empty").shape(), (Shape{0, 3}));
}

TEST(Npz, RoundTrips) {
  ScratchFolder folder;
  std::map<std::string, Tensor> arrays;
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    for (const Shape& shape : kShapes) {
      if (npy_has(dtype)) arrays[std::string(name_of(dtype)) + "/" + to_string(shape)] = example(dtype, shape);
    }
  }
  write_npz(folder / "a.npz", arrays);
  const std::map<std::string, Tensor> read = read_npz(folder / "a.npz");
  ASSERT_EQ(read.size(), arrays.size());
  for (const auto& [name, tensor] : arrays) EXPECT_TRUE(read.at(name).same_bytes(tensor)) << name;
  write_npz(folder / "b.npz", arrays);
  EXPECT_EQ(read_text_file(folder / "a.npz"), read_text_file(folder / "b.npz"));
  write_npz(folder / "a.npz", {});
  EXPECT_TRUE(read_npz(folder / "a.npz").empty());
}

TEST(Npz, DamageIsFoundAndNothingElseHappens) {
  ScratchFolder folder;
  const std::string path = folder / "a.npz";
  for (const char* source : {"numpy_deflated.npz", "numpy_stored.npz"}) {
    const std::string good = read_text_file(kData + source);
    // Cut anywhere, it has no end.
    for (size_t size = 0; size < good.size(); size += 7) {
      write_file_atomically(path, std::string_view(good).substr(0, size));
      error_of(ExitCode::usage, [&] { read_npz(path); });
    }
    // A changed byte is an error, or is in a field that doesn't matter (a time, a version).
    const std::map<std::string, Tensor> expected = read_npz(kData + source);
    for (size_t at = 0; at < good.size(); ++at) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 0x41);
      write_file_atomically(path, bad);
      try {
        const std::map<std::string, Tensor> read = read_npz(path);
        if (read.size() != expected.size()) continue;
        for (const auto& [name, tensor] : read) {
          if (!expected.contains(name)) continue;  // the byte is in the name
          ASSERT_TRUE(tensor.same_bytes(expected.at(name))) << source << " byte " << at << " " << name;
        }
      } catch (const Error& error) { ASSERT_EQ(static_cast<int>(error.code()), static_cast<int>(ExitCode::usage)) << error.what(); }
    }
  }
  EXPECT_NE(error_of(ExitCode::usage, [&] { read_npz(kData + "python.safetensors"); }).find("no end record"), std::string::npos);
}

TEST(Safetensors, ReadsWhatPythonWrote) {
  const TensorFile file = read_safetensors(kData + "python.safetensors");
  EXPECT_EQ(file.tensors.size(), 5u);
  EXPECT_EQ(as_doubles(file.tensors.at("b")), (Doubles{0, 1, 2}));
  EXPECT_EQ(file.tensors.at("a/x").dtype(), DType::i64);
  EXPECT_EQ(as_doubles(file.tensors.at("a/x")), (Doubles{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(file.tensors.at("z").shape(), (Shape{0, 3}));
  EXPECT_EQ(file.tensors.at("s").rank(), 0);
  EXPECT_EQ(as_doubles(file.tensors.at("flag")), (Doubles{1, 0, 1}));
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"format", "np"}, {"note", "a \"quoted\" word"}}));
}

TEST(Safetensors, RoundTripsEveryDTypeAndIsDeterministic) {
  ScratchFolder folder;
  std::map<std::string, Tensor> tensors;
  for (int i = 0; i < kNumDTypes; ++i) {
    for (const Shape& shape : kShapes)
      tensors[std::string(name_of(static_cast<DType>(i))) + to_string(shape)] = example(static_cast<DType>(i), shape);
  }
  tensors["caf\xc3\xa9 \"quoted\"\n"] = Tensor::scalar(DType::f32, 1);
  const std::map<std::string, std::string> metadata = {{"k", "v"}, {"", "\t"}};
  write_safetensors(folder / "a", tensors, metadata);
  TensorFile read = read_safetensors(folder / "a");
  ASSERT_EQ(read.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(read.tensors.at(name).same_bytes(tensor)) << name;
  EXPECT_EQ(read.metadata, metadata);
  write_safetensors(folder / "b", read.tensors, read.metadata);
  EXPECT_EQ(read_text_file(folder / "a"), read_text_file(folder / "b"));
  write_safetensors(folder / "a", {});
  EXPECT_TRUE(read_safetensors(folder / "a").tensors.empty());
}

TEST(Safetensors, WritesTheDocumentedLayout) {
  ScratchFolder folder;
  Tensor nibbles(DType::u4, {3});
  nibbles.set_int64(0, 1);
  nibbles.set_int64(2, 15);
  write_safetensors(folder / "a", {{"a", nibbles}, {"b", Tensor::from_ints({7})}});
  std::string header =
      R"({"__metadata__":{"tcc.packed.a":"u4[3]"},"a":{"data_offsets":[8,10],"dtype":"U8","shape":[2]},"b":{"data_offsets":[0,8],"dtype":"I64","shape":[1]}})";
  header.resize((8 + header.size() + 63) / 64 * 64 - 8, ' ');
  EXPECT_EQ(read_text_file(folder / "a"), safetensors(header, std::string("\7\0\0\0\0\0\0\0\1\17", 10)));
}

TEST(Safetensors, Errors) {
  ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  const auto error = [&](const std::string& text) {
    write_file_atomically(path, text);
    const std::string message = error_of(ExitCode::usage, [&] { read_safetensors(path); });
    EXPECT_TRUE(message.starts_with(path + ": error: ")) << message;
    return message.substr(path.size() + 9);
  };
  const auto one = [&](const std::string& entry, const std::string& data) { return error(safetensors("{\"x\":" + entry + "}", data)); };
  EXPECT_EQ(error(""), "not a safetensors file: it has 0 bytes, fewer than the length of a header [malformed-file]");
  EXPECT_NE(error(npy("{}", "")).find("more than the file"), std::string::npos);
  EXPECT_EQ(error(std::string(8, '\xff') + "{}"),
            "not a safetensors file: its header should have 18446744073709551615 bytes, more than the file [malformed-file]");
  EXPECT_EQ(error(safetensors("{\"x\":", "")), "not a safetensors file: its header is not JSON (at byte 14) [malformed-file]");
  EXPECT_EQ(error(safetensors("[]", "")), "not a safetensors file: its header is not a JSON object [malformed-file]");
  EXPECT_EQ(error(safetensors("{\"x\":{},\"x\":{}}", "")), "not a safetensors file: `x` is in its header twice [malformed-file]");
  EXPECT_EQ(error(safetensors("{\"__metadata__\":{\"a\":1}}", "")),
            "not a safetensors file: `__metadata__` is not an object of texts [malformed-file]");
  EXPECT_EQ(one("{}", ""), "not a safetensors file: tensor `x` has no dtype [malformed-file]");
  EXPECT_EQ(one(R"({"dtype":"C64","shape":[],"data_offsets":[0,8]})", "12345678"),
            "tensor `x` has dtype `C64`, which tcc doesn't know [unsupported-dtype]");
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", "1234"),
            "not a safetensors file: tensor `x` has no shape of non-negative integers [malformed-file]");
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})", "1234"),
            "not a safetensors file: tensor `x` has no two data offsets [malformed-file]");
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", "1234"),
            "not a safetensors file: tensor `x` has data offsets [0, 8], outside of the 4 bytes of data [malformed-file]");
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", "12345678"),
            "not a safetensors file: tensor `x` has data offsets [8, 0], outside of the 8 bytes of data [malformed-file]");
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,8]})", "12345678"),
            "not a safetensors file: tensor `x` has 8 bytes, f32[1] needs 4 [malformed-file]");
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", "12345678"),
            "not a safetensors file: its tensors leave a hole or overlap at byte 0 of the data [malformed-file]");
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", "12345678"),
            "not a safetensors file: it has 8 bytes of data, its tensors 4 [malformed-file]");
  EXPECT_EQ(error(safetensors(R"({"__metadata__":{"tcc.packed.x":"i4[9]"},"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "1")),
            "not a safetensors file: tensor `x` is said to be `i4[9]`, which its bytes are not [malformed-file]");
  error_of(ExitCode::environment, [&] { read_safetensors(folder / "none"); });
  error_of(ExitCode::environment, [&] { read_safetensors(folder / "."); });
  error_of(ExitCode::model, [&] { write_safetensors(path, {{"\xff", Tensor::scalar(DType::f32, 1)}}); });
}

TEST(Safetensors, DamageIsFoundAndNothingElseHappens) {
  ScratchFolder folder;
  const std::string good = read_text_file(kData + "python.safetensors");
  const size_t header_size = good.find("}}") + 2;
  for (size_t size = 0; size < good.size(); ++size) {
    write_file_atomically(folder / "a", std::string_view(good).substr(0, size));
    error_of(ExitCode::usage, [&] { read_safetensors(folder / "a"); });
  }
  for (size_t at = 0; at < header_size; ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x13);
    write_file_atomically(folder / "a", bad);
    try {
      read_safetensors(folder / "a");
    } catch (const Error& error) { ASSERT_EQ(static_cast<int>(error.code()), static_cast<int>(ExitCode::usage)) << error.what(); }
  }
}

}  // namespace
}  // namespace tcc
