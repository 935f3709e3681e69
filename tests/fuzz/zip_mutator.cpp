#include "fuzz/zip_mutator.h"

#include <minizip/unzip.h>
#include <zlib.h>

#include <stdexcept>

namespace tcc::attack {

namespace {

constexpr size_t kAlignment = 64;
constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;

/// Without zlib's own header, as zip has it.
std::string deflated(const std::string& bytes) {
  std::string result(compressBound(bytes.size()) + 64, '\0');
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::runtime_error("deflateInit2");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

/// Appends little-endian numbers, some of them wrong.
class Writer {
 public:
  Writer(Random& random, size_t one_in) : random_(random), one_in_(one_in) {}

  void fixed(uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  }
  void number(uint64_t value, size_t size) {
    if (one_in_ > 0 && random_.chance(one_in_)) {
      const uint64_t other = static_cast<uint64_t>(random_.hostile_number());
      value = random_.chance(2) ? other : random_.chance(2) ? value + other % 100 : value - other % 100;
    }
    fixed(value, size);
  }

  std::string bytes;

 private:
  Random& random_;
  size_t one_in_;
};

struct Placed {
  std::string data;
  uint64_t checksum = 0, offset = 0;
};

/// What local headers and the directory both say.
void common_fields(Writer& writer, const ZipEntry& entry, const Placed& placed, size_t extra_bytes) {
  writer.number(20, 2);  // version needed
  writer.number(0, 2);   // flags
  writer.number(entry.deflated ? 8 : 0, 2);
  writer.number(0, 4);  // time and date
  writer.number(placed.checksum, 4);
  writer.number(placed.data.size(), 4);
  writer.number(entry.bytes.size(), 4);
  writer.number(entry.name.size(), 2);
  writer.number(extra_bytes, 2);
}

void write_local(Writer& writer, const ZipEntry& entry, Placed& placed) {
  placed.offset = writer.bytes.size();
  const size_t begin = placed.offset + 30 + entry.name.size() + 4;
  const size_t padding = entry.deflated ? 0 : (kAlignment - begin % kAlignment) % kAlignment;
  writer.fixed(kLocal, 4);
  common_fields(writer, entry, placed, 4 + padding);
  writer.bytes += entry.name;
  writer.fixed('F' | 'B' << 8, 2);
  writer.number(padding, 2);
  writer.bytes += std::string(padding, 'Z') + placed.data;
}

void write_central(Writer& writer, const ZipEntry& entry, const Placed& placed, bool is_64) {
  writer.fixed(kCentral, 4);
  writer.number(0, 2);  // version made by
  common_fields(writer, entry, placed, is_64 ? 12 : 0);
  writer.number(0, 2);  // comment
  writer.number(0, 2);  // disk
  writer.number(0, 2);  // internal attributes
  writer.number(0, 4);  // external attributes
  writer.number(is_64 ? 0xffffffff : placed.offset, 4);
  writer.bytes += entry.name;
  if (!is_64) return;
  writer.number(1, 2);
  writer.number(8, 2);
  writer.number(placed.offset, 8);
}

void write_end(Writer& writer, size_t count, uint64_t directory, bool is_64) {
  const uint64_t end = writer.bytes.size(), size = end - directory;
  if (is_64) {
    writer.fixed(kEnd64, 4);
    writer.number(44, 8);
    writer.number(45, 4);  // versions
    writer.number(0, 8);   // disks
    writer.number(count, 8);
    writer.number(count, 8);
    writer.number(size, 8);
    writer.number(directory, 8);
    writer.fixed(kLocator64, 4);
    writer.number(0, 4);
    writer.number(end, 8);
    writer.number(1, 4);
  }
  writer.fixed(kEnd, 4);
  writer.number(0, 4);  // disks
  writer.number(is_64 ? 0xffff : count, 2);
  writer.number(is_64 ? 0xffff : count, 2);
  writer.number(is_64 ? 0xffffffff : size, 4);
  writer.number(is_64 ? 0xffffffff : directory, 4);
  writer.number(0, 2);  // comment
}

std::string other_name(Random& random, const std::vector<ZipEntry>& entries, const std::string& name) {
  switch (random.below(7)) {
    case 0: return "../" + name;
    case 1: return "/" + name;
    case 2: return name.substr(0, random.below(name.size() + 1));
    case 3: return random.pick(entries).name;
    case 4: return name + std::string(random.below(70'000), 'x');
    case 5: return "other/" + name;
    default: return mutate_bytes(random, name);
  }
}

}  // namespace

std::vector<ZipEntry> read_zip(const std::string& path) {
  std::vector<ZipEntry> entries;
  const unzFile zip = unzOpen64(path.c_str());
  if (zip == nullptr) throw std::runtime_error(path + " is not an archive");
  for (int status = unzGoToFirstFile(zip); status == UNZ_OK; status = unzGoToNextFile(zip)) {
    char name[512] = {};
    unz_file_info64 info{};
    unzGetCurrentFileInfo64(zip, &info, name, sizeof name - 1, nullptr, 0, nullptr, 0);
    std::string bytes(info.uncompressed_size, '\0');
    unzOpenCurrentFile(zip);
    const int count = unzReadCurrentFile(zip, bytes.data(), static_cast<unsigned>(bytes.size()));
    unzCloseCurrentFile(zip);
    if (count != static_cast<int>(bytes.size())) throw std::runtime_error(path + ": " + name + " can't be read");
    entries.push_back({name, std::move(bytes)});
  }
  unzClose(zip);
  return entries;
}

std::string write_zip(Random& random, const std::vector<ZipEntry>& entries, size_t one_in) {
  Writer writer(random, one_in);
  std::vector<Placed> placed;
  for (const ZipEntry& entry : entries) {
    Placed& place = placed.emplace_back();
    place.data = entry.deflated ? deflated(entry.bytes) : entry.bytes;
    place.checksum = crc32(0, reinterpret_cast<const Bytef*>(entry.bytes.data()), static_cast<uInt>(entry.bytes.size()));
    write_local(writer, entry, place);
  }
  const uint64_t directory = writer.bytes.size();
  const bool is_64 = random.chance(4);
  for (size_t i = 0; i < entries.size(); ++i) write_central(writer, entries[i], placed[i], is_64);
  write_end(writer, entries.size(), directory, is_64);
  return std::move(writer.bytes);
}

void mutate_entries(Random& random, std::vector<ZipEntry>& entries) {
  for (size_t i = 0, count = 1 + random.below(3); i < count && !entries.empty(); ++i) {
    const size_t at = random.below(entries.size());
    ZipEntry& entry = entries[at];
    switch (random.below(8)) {
      case 0: entries.erase(entries.begin() + static_cast<ptrdiff_t>(at)); break;
      case 1: entries.push_back(ZipEntry(entry)); break;
      case 2: entry.name = other_name(random, entries, entry.name); break;
      case 3: entry.bytes.resize(random.below(entry.bytes.size() + 1)); break;
      case 4: std::swap(entry.bytes, entries[random.below(entries.size())].bytes); break;
      case 5: entry.deflated = true; break;
      case 6:
        entry.bytes += std::string(random.chance(20) ? size_t{50} << 20 : random.below(100'000), '\0');
        entry.deflated = true;
        break;
      default: entry.bytes = mutate_bytes(random, entry.bytes);
    }
  }
}

}  // namespace tcc::attack
