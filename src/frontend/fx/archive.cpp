#include "frontend/fx/archive.h"

#include <minizip/unzip.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "tcc/support/diagnostics.h"

namespace tcc::fx {

namespace {

// A program and the tables of weights are text that deflates well; weights are stored. More than this of one packed entry is a bomb.
constexpr uint64_t kLargestUnpacked = uint64_t{1} << 32;
constexpr uint64_t kLargestRatio = 1100;  // what deflate can reach is 1032
constexpr uint64_t kMostEntries = 10'000'000;

/// A file in memory, as minizip wants one.
struct MemoryFile {
  std::span<const std::byte> bytes;
  uint64_t at = 0;
};

void* open_memory(void* memory, const void*, int) { return memory; }
uLong read_memory(void*, void* stream, void* buffer, uLong size) {
  auto* file = static_cast<MemoryFile*>(stream);
  const uint64_t count = std::min<uint64_t>(size, file->bytes.size() - file->at);
  if (count > 0) std::memcpy(buffer, file->bytes.data() + file->at, count);
  file->at += count;
  return count;
}
uLong write_memory(void*, void*, const void*, uLong) { return 0; }
ZPOS64_T tell_memory(void*, void* stream) { return static_cast<MemoryFile*>(stream)->at; }
long seek_memory(void*, void* stream, ZPOS64_T offset, int origin) {
  auto* file = static_cast<MemoryFile*>(stream);
  const uint64_t base = origin == ZLIB_FILEFUNC_SEEK_SET ? 0 : origin == ZLIB_FILEFUNC_SEEK_CUR ? file->at : file->bytes.size();
  if (offset > file->bytes.size() - base) return -1;
  file->at = base + offset;
  return 0;
}
int close_memory(void*, void*) { return 0; }
int error_of_memory(void*, void*) { return 0; }

struct Entry {
  unz64_file_pos place;
  uint64_t compressed_size, size;
  uLong checksum;
  bool stored;
};

/// A name that leads out of the archive is nobody's weight.
bool leaves_archive(const std::string& name) {
  return name.empty() || name[0] == '/' || name.find('\0') != std::string::npos || name.find('\\') != std::string::npos ||
         ("/" + name + "/").find("/../") != std::string::npos;
}

}  // namespace

struct Archive::Directory {
  MemoryFile memory;
  unzFile zip = nullptr;
  std::unordered_map<std::string, Entry> entries;
  ~Directory() {
    if (zip != nullptr) unzClose(zip);
  }
};

Archive::Archive(std::string file, std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
    : file_(std::move(file)), bytes_(bytes), owner_(std::move(owner)), directory_(std::make_unique<Directory>()) {
  directory_->memory.bytes = bytes;
  zlib_filefunc64_def functions = {open_memory, read_memory,  write_memory,    tell_memory,
                                   seek_memory, close_memory, error_of_memory, &directory_->memory};
  directory_->zip = unzOpen2_64(nullptr, &functions);
  unz_global_info64 info{};
  if (directory_->zip == nullptr || unzGetGlobalInfo64(directory_->zip, &info) != UNZ_OK)
    fail("the archive has no directory: it is truncated");
  if (info.number_entry > kMostEntries) fail("the archive has " + std::to_string(info.number_entry) + " entries");
  std::vector<std::pair<std::string, Entry>> found;
  for (int status = unzGoToFirstFile(directory_->zip); status != UNZ_END_OF_LIST_OF_FILE; status = unzGoToNextFile(directory_->zip)) {
    unz_file_info64 entry{};
    char buffer[4096];
    if (status != UNZ_OK || unzGetCurrentFileInfo64(directory_->zip, &entry, buffer, sizeof buffer, nullptr, 0, nullptr, 0) != UNZ_OK)
      fail("the directory of the archive is damaged");
    if (entry.size_filename >= sizeof buffer) fail("an entry has a name of " + std::to_string(entry.size_filename) + " bytes");
    const std::string name(buffer, entry.size_filename);
    if (leaves_archive(name)) fail("the entry `" + name + "` leaves the archive");
    Entry kept{{}, entry.compressed_size, entry.uncompressed_size, entry.crc, entry.compression_method == 0};
    unzGetFilePos64(directory_->zip, &kept.place);
    found.emplace_back(name, kept);
  }
  for (auto& [name, entry] : found) {
    const size_t slash = name.find('/');
    std::string below = slash == std::string::npos ? name : name.substr(slash + 1);
    if (below.empty() || below.back() == '/') continue;  // a folder
    if (!directory_->entries.emplace(below, entry).second) fail("the archive has two entries `" + below + "`");
    names_.push_back(std::move(below));
  }
}

Archive::~Archive() = default;

void Archive::fail(const std::string& message) const { throw Error(ExitCode::model, "malformed-file", file_, message); }

bool Archive::has(std::string_view name) const { return directory_->entries.contains(std::string(name)); }

EntryBytes Archive::read(const std::string& name) const {
  const auto found = directory_->entries.find(name);
  if (found == directory_->entries.end()) fail("the archive has no entry `" + name + "`");
  Entry& entry = found->second;
  const std::string what = "the entry `" + name + "`";
  if (unzGoToFilePos64(directory_->zip, &entry.place) != UNZ_OK || unzOpenCurrentFile(directory_->zip) != UNZ_OK)
    fail(what + " can't be read: the archive is damaged");
  if (entry.stored) {
    const uint64_t begin = unzGetCurrentFileZStreamPos64(directory_->zip);
    unzCloseCurrentFile(directory_->zip);
    if (entry.size != entry.compressed_size || begin > bytes_.size() || entry.size > bytes_.size() - begin)
      fail(what + " lies outside of the archive: it is truncated");
    const std::span<const std::byte> bytes = bytes_.subspan(begin, entry.size);
    if (crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != entry.checksum)
      fail(what + " has a wrong checksum: it is damaged");
    return {bytes, owner_};
  }
  if (entry.size > kLargestUnpacked || entry.size / kLargestRatio > entry.compressed_size) {
    unzCloseCurrentFile(directory_->zip);
    fail(what + " says that it unpacks to " + std::to_string(entry.size) + " bytes from " + std::to_string(entry.compressed_size));
  }
  auto text = std::make_shared<std::string>();
  text->resize(entry.size);
  uint64_t done = 0;
  int count = 1;
  while (done < entry.size && count > 0) {
    const uint64_t piece = std::min<uint64_t>(entry.size - done, 1 << 20);
    count = unzReadCurrentFile(directory_->zip, text->data() + done, static_cast<unsigned>(piece));
    if (count > 0) done += static_cast<uint64_t>(count);
  }
  char more = 0;
  const bool ends = unzReadCurrentFile(directory_->zip, &more, 1) == 0;
  if (done < entry.size || !ends || unzCloseCurrentFile(directory_->zip) != UNZ_OK) fail(what + " can't be unpacked: it is damaged");
  return {std::as_bytes(std::span(*text)), text};
}

}  // namespace tcc::fx
