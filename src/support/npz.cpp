// Reading and writing .npz: a zip archive whose members are .npy files.
//
// A zip is read from its end: the end record tells where the central directory is, and that lists every member with its place, sizes and
// checksum. The record in front of a member's data only repeats that (and may leave sizes out), so nothing but its length is taken from it.
// Source: PKWARE, APPNOTE.TXT 6.3, sections 4.3 and 4.4.

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "support/bytes.h"
#include "support/npy_header.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"
#include "tcc/support/npy.h"

namespace tcc {
namespace {

constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint32_t kCentralSignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22;  // of the fixed part
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr uint16_t kEncrypted = 1;            // flag
constexpr uint16_t kDate1980 = (1 << 5) | 1;  // the first of January 1980, the earliest that a zip can say

using Bytes = std::span<const std::byte>;

[[noreturn]] void fail_malformed(const std::string& path, const std::string& reason) {
  throw Error(ExitCode::usage, "malformed-file", path, "not an .npz archive: " + reason);
}

struct Member {
  std::string name;
  uint16_t flags = 0, method = 0;
  uint32_t checksum = 0, compressed_size = 0, size = 0, offset = 0;
};

std::vector<Member> read_directory(Bytes bytes, const std::string& path) {
  // The end record is followed by a comment of up to 64 KiB, so it is looked for from the end.
  size_t end = bytes.size() < kEndSize ? std::numeric_limits<size_t>::max() : bytes.size() - kEndSize;
  const size_t lowest = bytes.size() > kEndSize + 0xffff ? bytes.size() - kEndSize - 0xffff : 0;
  while (end != std::numeric_limits<size_t>::max() && (read_integer<uint32_t>(bytes, end) != kEndSignature ||
                                                       read_integer<uint16_t>(bytes, end + 20) != bytes.size() - end - kEndSize)) {
    end = end == lowest ? std::numeric_limits<size_t>::max() : end - 1;
  }
  if (end == std::numeric_limits<size_t>::max()) fail_malformed(path, "it has no end record of a zip");
  const size_t count = read_integer<uint16_t>(bytes, end + 10);
  const size_t directory_size = read_integer<uint32_t>(bytes, end + 12);
  size_t at = read_integer<uint32_t>(bytes, end + 16);
  if (count == 0xffff || at == 0xffffffff) fail_malformed(path, "it is a zip64 archive (4 GiB or more), which tcc doesn't read");
  if (at > end || directory_size > end - at) fail_malformed(path, "its directory lies outside of the file");
  const size_t directory_end = at + directory_size;

  std::vector<Member> members;
  for (size_t i = 0; i < count; ++i) {
    if (directory_end - at < kCentralSize || read_integer<uint32_t>(bytes, at) != kCentralSignature)
      fail_malformed(path, "its directory is damaged");
    Member member;
    member.flags = read_integer<uint16_t>(bytes, at + 8);
    member.method = read_integer<uint16_t>(bytes, at + 10);
    member.checksum = read_integer<uint32_t>(bytes, at + 16);
    member.compressed_size = read_integer<uint32_t>(bytes, at + 20);
    member.size = read_integer<uint32_t>(bytes, at + 24);
    member.offset = read_integer<uint32_t>(bytes, at + 42);
    const size_t name_size = read_integer<uint16_t>(bytes, at + 28);
    const size_t record_size = kCentralSize + name_size + read_integer<uint16_t>(bytes, at + 30) + read_integer<uint16_t>(bytes, at + 32);
    if (directory_end - at < record_size) fail_malformed(path, "its directory is damaged");
    member.name.assign(reinterpret_cast<const char*>(bytes.data()) + at + kCentralSize, name_size);
    members.push_back(std::move(member));
    at += record_size;
  }
  return members;
}

/// The bytes of a member as they lie in the file.
Bytes raw_contents(Bytes bytes, const Member& member, const std::string& where) {
  if (member.size == 0xffffffff || member.compressed_size == 0xffffffff || member.offset == 0xffffffff) {
    fail_malformed(where, "it is a zip64 member (4 GiB or more), which tcc doesn't read");
  }
  if (bytes.size() < kLocalSize || member.offset > bytes.size() - kLocalSize ||
      read_integer<uint32_t>(bytes, member.offset) != kLocalSignature) {
    fail_malformed(where, "its place in the file is wrong");
  }
  const size_t start =
      member.offset + kLocalSize + read_integer<uint16_t>(bytes, member.offset + 26) + read_integer<uint16_t>(bytes, member.offset + 28);
  if (start > bytes.size() || member.compressed_size > bytes.size() - start) fail_malformed(where, "it ends behind the file");
  return bytes.subspan(start, member.compressed_size);
}

/// Inflates to exactly `size` bytes.
std::shared_ptr<std::vector<std::byte>> inflate_exactly(Bytes packed, size_t size, const std::string& where) {
  // Deflate can't do better than 1 : 1032, so a size beyond that is a lie, found before memory is asked for.
  if (size / 1032 > packed.size()) fail_malformed(where, "its sizes contradict each other");
  auto result = std::make_shared<std::vector<std::byte>>(size);
  z_stream stream{};
  check(inflateInit2(&stream, -MAX_WBITS) == Z_OK, "zlib doesn't start");  // negative: no zlib header around the data
  std::byte nothing{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(size != 0 ? result->data() : &nothing);
  stream.avail_out = static_cast<uInt>(size);
  const int status = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (status != Z_STREAM_END || stream.avail_out != 0 || stream.avail_in != 0) fail_malformed(where, "its compressed data is damaged");
  return result;
}

uint32_t checksum_of(Bytes bytes, uint32_t start = 0) {
  return static_cast<uint32_t>(crc32_z(start, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

/// Whether the header of a .npy says that its elements are strings.
bool holds_text(Bytes contents) {
  const std::string_view header(reinterpret_cast<const char*>(contents.data()), std::min<size_t>(contents.size(), 64));
  return header.find("'descr': '<U") != std::string_view::npos || header.find("'descr': '|S") != std::string_view::npos;
}

}  // namespace

std::map<std::string, Tensor> read_npz(const std::string& path, bool skip_text) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  std::map<std::string, Tensor> arrays;
  for (const Member& member : read_directory(file->bytes(), path)) {
    if (!member.name.ends_with(".npy")) fail_malformed(path, "member `" + member.name + "` is not a .npy");
    const std::string name = member.name.substr(0, member.name.size() - 4);
    const std::string where = path + ":" + name;
    if ((member.flags & kEncrypted) != 0) fail_malformed(where, "it is encrypted");
    Bytes contents = raw_contents(file->bytes(), member, where);
    std::shared_ptr<const void> owner = file;
    if (member.method == kDeflated) {
      const auto inflated = inflate_exactly(contents, member.size, where);
      contents = *inflated;
      owner = inflated;
    } else if (member.method != kStored) {
      fail_malformed(where, "it is compressed by method " + std::to_string(member.method) + ", known are stored (0) and deflated (8)");
    }
    if (contents.size() != member.size) fail_malformed(where, "its sizes contradict each other");
    if (checksum_of(contents) != member.checksum) fail_malformed(where, "its checksum is wrong");
    if (skip_text && holds_text(contents)) continue;
    if (!arrays.emplace(name, read_npy(contents, std::move(owner), where)).second)
      fail_malformed(path, "array `" + name + "` is in it twice");
  }
  return arrays;
}

void write_npz(const std::string& path, const std::map<std::string, Tensor>& arrays) {
  std::vector<std::string> records;  // the pieces below point into them
  records.reserve(arrays.size() + 1);
  std::vector<Bytes> pieces;
  std::string directory;
  uint64_t offset = 0;
  const auto check_limit = [&](uint64_t value) {
    if (value >= 0xffffffff) {
      throw Error(ExitCode::usage, "unwritable-file", path, "file can't be written: an .npz of 4 GiB or more is not supported",
                  "save .npy files or safetensors");
    }
  };
  for (const auto& [name, tensor] : arrays) {
    const std::string member = name + ".npy";
    const std::string header = npy_header(tensor, path);
    const Bytes data(tensor.bytes(), static_cast<size_t>(tensor.size_bytes()));
    const uint64_t size = header.size() + data.size();
    check_limit(offset);
    check_limit(size);
    check(member.size() <= 0xffff && arrays.size() < 0xffff, "an .npz has too many arrays or too long a name");

    // The fields that both records have.
    std::string common;
    append_integer<uint16_t>(common, 20);       // version that can read it
    append_integer<uint16_t>(common, 1 << 11);  // the name is UTF-8
    append_integer<uint16_t>(common, kStored);
    append_integer<uint16_t>(common, 0);  // time
    append_integer<uint16_t>(common, kDate1980);
    append_integer<uint32_t>(common, checksum_of(data, checksum_of(std::as_bytes(std::span(header.data(), header.size())))));
    append_integer<uint32_t>(common, static_cast<uint32_t>(size));
    append_integer<uint32_t>(common, static_cast<uint32_t>(size));
    append_integer<uint16_t>(common, static_cast<uint16_t>(member.size()));
    append_integer<uint16_t>(common, 0);  // extra fields

    std::string& record = records.emplace_back();
    append_integer<uint32_t>(record, kLocalSignature);
    record += common + member + header;

    append_integer<uint32_t>(directory, kCentralSignature);
    append_integer<uint16_t>(directory, 20);  // version that made it
    directory += common;
    append_integer<uint16_t>(directory, 0);  // comment
    append_integer<uint16_t>(directory, 0);  // disk
    append_integer<uint16_t>(directory, 0);  // internal attributes
    append_integer<uint32_t>(directory, 0);  // external attributes
    append_integer<uint32_t>(directory, static_cast<uint32_t>(offset));
    directory += member;

    pieces.push_back(std::as_bytes(std::span(record.data(), record.size())));
    pieces.push_back(data);
    offset += record.size() + data.size();
  }
  check_limit(offset);
  const size_t directory_size = directory.size();
  append_integer<uint32_t>(directory, kEndSignature);
  append_integer<uint16_t>(directory, 0);  // this disk
  append_integer<uint16_t>(directory, 0);  // disk of the directory
  append_integer<uint16_t>(directory, static_cast<uint16_t>(arrays.size()));
  append_integer<uint16_t>(directory, static_cast<uint16_t>(arrays.size()));
  append_integer<uint32_t>(directory, static_cast<uint32_t>(directory_size));
  append_integer<uint32_t>(directory, static_cast<uint32_t>(offset));
  append_integer<uint16_t>(directory, 0);  // comment
  pieces.push_back(std::as_bytes(std::span(directory.data(), directory.size())));
  write_file_atomically(path, pieces);
}

}  // namespace tcc
