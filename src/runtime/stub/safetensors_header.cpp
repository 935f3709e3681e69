#include "runtime/stub/safetensors_header.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/stub/json_scanner.h"
#include "runtime/stub/message.h"

namespace tcc::stub {

using namespace tcc::program;

namespace {

constexpr size_t kMostAxes = 64;
constexpr size_t kShownBytes = 200;  // of a name in a message
constexpr char kOptimizer[] = "optimizer.";

struct Entry {
  char dtype[16];
  size_t dtype_bytes;
  int64_t shape[kMostAxes];
  size_t rank;
  uint64_t begin, end;
};

class Reader {
 public:
  Reader(const ProgramView& view, const char* path, const char* json, size_t json_bytes, uint64_t data_bytes, bool parameters_only,
         FileHeader* header)
      : view_(view),
        path_(path),
        scan_(json, json_bytes),
        json_bytes_(json_bytes),
        data_bytes_(data_bytes),
        parameters_only_(parameters_only),
        header_(header) {}
  ~Reader() {
    free(name_);
    free(other_);
    free(seen_);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  int read() {
    // A resolved string is not longer than its text.
    name_ = static_cast<char*>(malloc(json_bytes_ + 1));
    other_ = static_cast<char*>(malloc(json_bytes_ + 1));
    seen_ = static_cast<bool*>(calloc(view_.state().count + size_t{1}, 1));
    if (!name_ || !other_ || !seen_) return no_memory();
    if (int status = entries()) return status;
    header_->whole = !parameters_only_ && (header_->has_optimizer || !keeps_optimizer());
    if (int status = check_missing()) return status;
    return check_places();
  }

 private:
  int no_memory() { return fail(TCC_OUT_OF_MEMORY, "no memory to read state file `%.400s`", path_); }
  int malformed(const char* expected) {
    return fail(TCC_FILE_ERROR, "state file `%.400s` is not a safetensors file: expected %s at byte %zu of its header", path_, expected,
                scan_.position());
  }

  bool keeps_optimizer() const {
    for (const StateTensor& tensor : view_.state()) {
      if (tensor.role == StateRole::optimizer) return true;
    }
    return false;
  }

  int entries() {
    if (!scan_.take('{')) return malformed("`{`");
    bool metadata = false;
    if (!scan_.take('}')) {
      do {
        if (!scan_.string(name_, json_bytes_, &name_bytes_)) return malformed("the name of a tensor");
        if (!scan_.take(':')) return malformed("`:`");
        if (name_bytes_ == 12 && memcmp(name_, "__metadata__", 12) == 0) {
          if (metadata) return malformed("one `__metadata__`, not two,");
          metadata = true;
          if (int status = skip_metadata()) return status;
        } else if (int status = tensor()) {
          return status;
        }
      } while (scan_.take(','));
      if (!scan_.take('}')) return malformed("`,` or `}`");
    }
    return scan_.at_end() ? TCC_OK : malformed("the end");
  }

  int skip_metadata() {
    if (!scan_.take('{')) return malformed("`{`");
    if (scan_.take('}')) return TCC_OK;
    do {
      size_t bytes;
      if (!scan_.string(other_, json_bytes_, &bytes) || !scan_.take(':') || !scan_.string(other_, json_bytes_, &bytes))
        return malformed("a text of `__metadata__`");
    } while (scan_.take(','));
    return scan_.take('}') ? TCC_OK : malformed("`,` or `}`");
  }

  // {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, in any order, each once.
  int fields(Entry* entry) {
    bool has_dtype = false, has_shape = false, has_places = false;
    if (!scan_.take('{')) return malformed("`{`");
    do {
      char key[16];
      size_t bytes;
      if (!scan_.string(key, sizeof key, &bytes) || !scan_.take(':')) return malformed("`dtype`, `shape` or `data_offsets`");
      const auto is = [&](const char* text) { return bytes == strlen(text) && memcmp(key, text, bytes) == 0; };
      if (is("dtype") && !has_dtype) {
        has_dtype = true;
        if (!scan_.string(entry->dtype, sizeof entry->dtype - 1, &entry->dtype_bytes)) return malformed("a dtype");
        entry->dtype[entry->dtype_bytes] = '\0';
      } else if (is("shape") && !has_shape) {
        has_shape = true;
        if (int status = shape(entry)) return status;
      } else if (is("data_offsets") && !has_places) {
        has_places = true;
        if (!scan_.take('[') || !scan_.integer(&entry->begin) || !scan_.take(',') || !scan_.integer(&entry->end) || !scan_.take(']'))
          return malformed("`data_offsets` of two numbers");
      } else {
        return malformed("`dtype`, `shape` and `data_offsets`, each once,");
      }
    } while (scan_.take(','));
    if (!scan_.take('}')) return malformed("`,` or `}`");
    return has_dtype && has_shape && has_places ? TCC_OK : malformed("`dtype`, `shape` and `data_offsets` before");
  }

  int shape(Entry* entry) {
    entry->rank = 0;
    if (!scan_.take('[')) return malformed("`[`");
    if (scan_.take(']')) return TCC_OK;
    do {
      uint64_t extent;
      if (entry->rank == kMostAxes || !scan_.integer(&extent) || extent > INT64_MAX) return malformed("an extent");
      entry->shape[entry->rank++] = static_cast<int64_t>(extent);
    } while (scan_.take(','));
    return scan_.take(']') ? TCC_OK : malformed("`,` or `]`");
  }

  bool has_optimizer_prefix() const {
    return name_bytes_ >= sizeof kOptimizer - 1 && memcmp(name_, kOptimizer, sizeof kOptimizer - 1) == 0;
  }

  // Most files have the order of the table.
  const StateTensor* find() {
    const Rows<StateTensor> tensors = view_.state();
    for (uint32_t i = 0; i < tensors.count; i++) {
      const uint32_t candidate = (next_ + i) % tensors.count;
      const StateTensor& tensor = tensors[candidate];
      if (tensor.name.size != name_bytes_ || memcmp(view_.text(tensor.name), name_, name_bytes_) != 0) continue;
      if (tensor.role == StateRole::gradient) return nullptr;  // no part of a file
      next_ = candidate + 1;
      return &tensor;
    }
    return nullptr;
  }

  int tensor() {
    name_[name_bytes_] = '\0';
    Entry entry = {};
    if (int status = fields(&entry)) return status;
    const int shown = static_cast<int>(name_bytes_ < kShownBytes ? name_bytes_ : kShownBytes);
    if (entry.begin > entry.end || entry.end > data_bytes_) {
      return fail(TCC_FILE_ERROR, "state file `%.400s`: tensor `%.*s` lies at [%llu, %llu) of %llu bytes of data", path_, shown, name_,
                  static_cast<unsigned long long>(entry.begin), static_cast<unsigned long long>(entry.end),
                  static_cast<unsigned long long>(data_bytes_));
    }
    const StateTensor* known = find();
    // A model may have a parameter of such a name.
    const bool of_optimizer = known ? known->role == StateRole::optimizer : has_optimizer_prefix();
    header_->has_optimizer |= of_optimizer;
    if (parameters_only_ && of_optimizer) {
      known = nullptr;
    } else {
      if (!known)
        return fail(TCC_FILE_ERROR, "state file `%.400s`: tensor `%.*s` is not a part of the library's state", path_, shown, name_);
      if (int status = check(entry, *known)) return status;
      bool* seen = &seen_[known - view_.state().data];
      if (*seen) return fail(TCC_FILE_ERROR, "state file `%.400s`: tensor `%.*s` is there twice", path_, shown, name_);
      *seen = true;
    }
    return add({entry.begin, entry.end, known});
  }

  int check(const Entry& entry, const StateTensor& known) {
    const char* name = view_.text(known.name);
    const char* dtype = safetensors_dtype(known.dtype);
    if (!dtype || strcmp(entry.dtype, dtype) != 0) {
      return fail(TCC_FILE_ERROR, "state file `%.400s`: tensor `%.200s`: dtype is %s, expected %s", path_, name, entry.dtype,
                  dtype ? dtype : "one that safetensors files do not have");
    }
    const int64_t* shape = view_.shape(known);
    bool same = entry.rank == known.shape.count;
    for (size_t axis = 0; same && axis < entry.rank; axis++) same = entry.shape[axis] == shape[axis];
    if (!same) {
      return fail(TCC_FILE_ERROR, "state file `%.400s`: tensor `%.200s`: shape is %s, expected %s", path_, name,
                  ShapeText(entry.shape, static_cast<int64_t>(entry.rank)).text, ShapeText(shape, known.shape.count).text);
    }
    if (entry.end - entry.begin != known.size_bytes) {
      return fail(TCC_FILE_ERROR, "state file `%.400s`: tensor `%.200s` has %llu bytes, expected %llu", path_, name,
                  static_cast<unsigned long long>(entry.end - entry.begin), static_cast<unsigned long long>(known.size_bytes));
    }
    return TCC_OK;
  }

  int add(const FileTensor& tensor) {
    if (header_->num_tensors == capacity_) {
      const size_t capacity = capacity_ ? 2 * capacity_ : 64;
      FileTensor* larger = static_cast<FileTensor*>(malloc(capacity * sizeof(FileTensor)));
      if (!larger) return no_memory();
      if (header_->num_tensors) memcpy(larger, header_->tensors, header_->num_tensors * sizeof(FileTensor));
      free(header_->tensors);
      header_->tensors = larger;
      capacity_ = capacity;
    }
    header_->tensors[header_->num_tensors++] = tensor;
    return TCC_OK;
  }

  int check_missing() {
    const Rows<StateTensor> tensors = view_.state();
    for (uint32_t i = 0; i < tensors.count; i++) {
      const bool wanted = tensors[i].role != StateRole::gradient && (header_->whole || tensors[i].role != StateRole::optimizer);
      if (wanted && !seen_[i])
        return fail(TCC_FILE_ERROR, "state file `%.400s`: tensor `%.200s` is missing", path_, view_.text(tensors[i].name));
    }
    return TCC_OK;
  }

  int check_places() {
    qsort(header_->tensors, header_->num_tensors, sizeof(FileTensor), [](const void* a, const void* b) {
      const FileTensor& x = *static_cast<const FileTensor*>(a);
      const FileTensor& y = *static_cast<const FileTensor*>(b);
      if (x.begin != y.begin) return x.begin < y.begin ? -1 : 1;
      return x.end < y.end ? -1 : x.end > y.end;
    });
    uint64_t at = 0;
    for (size_t i = 0; i < header_->num_tensors; i++) {
      if (header_->tensors[i].begin != at) break;
      at = header_->tensors[i].end;
      if (i + 1 == header_->num_tensors && at == data_bytes_) return TCC_OK;
    }
    if (header_->num_tensors == 0 && data_bytes_ == 0) return TCC_OK;
    return fail(TCC_FILE_ERROR,
                "state file `%.400s` is not a safetensors file: its tensors overlap or leave a hole at byte %llu of the data", path_,
                static_cast<unsigned long long>(at));
  }

  const ProgramView& view_;
  const char* path_;
  JsonScanner scan_;
  const size_t json_bytes_;
  const uint64_t data_bytes_;
  const bool parameters_only_;
  FileHeader* header_;
  size_t capacity_ = 0;
  char* name_ = nullptr;  // of the tensor being read
  size_t name_bytes_ = 0;
  char* other_ = nullptr;
  bool* seen_ = nullptr;  // by state tensor
  uint32_t next_ = 0;     // where find() begins
};

}  // namespace

const char* safetensors_dtype(uint32_t dtype) {
  static const char* const names[] = {"F32", "F64", "F16",  "BF16",    "I8",    "I16",     "I32",   "I64",   "U8",   "U16",
                                      "U32", "U64", "BOOL", "F8_E4M3", nullptr, "F8_E5M2", nullptr, nullptr, nullptr};
  return dtype <= TCC_U4 ? names[dtype] : nullptr;
}

int read_header(const ProgramView& view, const char* path, const char* json, size_t json_bytes, uint64_t data_bytes, bool parameters_only,
                FileHeader* header) {
  return Reader(view, path, json, json_bytes, data_bytes, parameters_only, header).read();
}

}  // namespace tcc::stub
