// A torch.export archive: a zip whose entries lie under one folder.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::fx {

/// Bytes of an entry, in the archive itself when it is stored as it is; `owner` keeps them.
struct EntryBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

/// Reads through minizip. Names are those below the archive's top folder, "data/weights/weight_0".
/// Errors (Error, exit code model, kind malformed-file): a zip that is truncated or contradicts itself, an entry whose checksum is wrong,
/// names that leave the archive, an entry that unpacks to more than there is room for.
class Archive {
 public:
  /// `owner` keeps the bytes of the archive.
  Archive(std::string file, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  ~Archive();
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  const std::string& file() const { return file_; }
  const std::vector<std::string>& names() const { return names_; }  ///< in the order of the archive
  bool has(std::string_view name) const;
  EntryBytes read(const std::string& name) const;  ///< Error when there is no such entry

 private:
  struct Directory;
  [[noreturn]] void fail(const std::string& message) const;

  std::string file_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::unique_ptr<Directory> directory_;
  std::vector<std::string> names_;
};

}  // namespace tcc::fx
