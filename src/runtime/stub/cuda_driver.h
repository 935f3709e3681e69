// The few declarations of the CUDA driver interface that the stub needs, so that no CUDA toolkit is needed to build tcc.
//
// The driver is found with dlopen("libcuda.so.1"); its functions are asked for by name and by the version of the interface they are
// declared in below (11.4), which every driver from 11.4 on serves unchanged, whatever newer forms it has under the same names.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tcc::stub {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;

inline constexpr int kCudaInterfaceVersion = 11040;

inline constexpr CUresult CUDA_SUCCESS = 0;
inline constexpr CUresult CUDA_ERROR_OUT_OF_MEMORY = 2;

// Device attributes.
inline constexpr int CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75;
inline constexpr int CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76;
inline constexpr int CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97;
// Function attributes.
inline constexpr int CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0;
inline constexpr int CU_FUNC_ATTRIBUTE_NUM_REGS = 4;
inline constexpr int CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;
// Options of cuModuleLoadDataEx.
inline constexpr int CU_JIT_ERROR_LOG_BUFFER = 5;
inline constexpr int CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6;
// Values of enums.
inline constexpr int CU_STREAM_CAPTURE_STATUS_NONE = 0;
inline constexpr int CU_STREAM_CAPTURE_MODE_RELAXED = 2;
inline constexpr int CU_MEMORYTYPE_DEVICE = 2;
inline constexpr unsigned int CU_MEMHOSTALLOC_DEVICEMAP = 2;

struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  unsigned int gridDimX, gridDimY, gridDimZ;
  unsigned int blockDimX, blockDimY, blockDimZ;
  unsigned int sharedMemBytes;
  void** kernelParams;
  void** extra;
};
static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == 56);

struct CUDA_MEMCPY3D {
  size_t srcXInBytes, srcY, srcZ, srcLOD;
  int srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  void* srcArray;
  void* reserved0;
  size_t srcPitch, srcHeight;
  size_t dstXInBytes, dstY, dstZ, dstLOD;
  int dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  void* dstArray;
  void* reserved1;
  size_t dstPitch, dstHeight;
  size_t WidthInBytes, Height, Depth;
};
static_assert(sizeof(CUDA_MEMCPY3D) == 200);

struct CUDA_MEMSET_NODE_PARAMS {
  CUdeviceptr dst;
  size_t pitch;
  unsigned int value;
  unsigned int elementSize;
  size_t width;  ///< in elements
  size_t height;
};
static_assert(sizeof(CUDA_MEMSET_NODE_PARAMS) == 40);

// X(name, parameters): every function that is used.
#define TCC_CUDA_FUNCTIONS(X)                                                                                                           \
  X(cuInit, (unsigned int flags))                                                                                                       \
  X(cuDriverGetVersion, (int* version))                                                                                                 \
  X(cuGetErrorName, (CUresult error, const char** text))                                                                                \
  X(cuGetErrorString, (CUresult error, const char** text))                                                                              \
  X(cuDeviceGetCount, (int* count))                                                                                                     \
  X(cuDeviceGet, (CUdevice * device, int ordinal))                                                                                      \
  X(cuDeviceGetName, (char* name, int size, CUdevice device))                                                                           \
  X(cuDeviceGetAttribute, (int* value, int attribute, CUdevice device))                                                                 \
  X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                                                   \
  X(cuDevicePrimaryCtxRelease, (CUdevice device))                                                                                       \
  X(cuCtxGetCurrent, (CUcontext * context))                                                                                             \
  X(cuCtxPushCurrent, (CUcontext context))                                                                                              \
  X(cuCtxPopCurrent, (CUcontext * context))                                                                                             \
  X(cuCtxGetDevice, (CUdevice * device))                                                                                                \
  X(cuCtxSynchronize, ())                                                                                                               \
  X(cuModuleLoadDataEx, (CUmodule * module, const void* image, unsigned int num_options, int* options, void** values))                  \
  X(cuModuleUnload, (CUmodule module))                                                                                                  \
  X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char* name))                                                    \
  X(cuFuncSetAttribute, (CUfunction function, int attribute, int value))                                                                \
  X(cuFuncGetAttribute, (int* value, int attribute, CUfunction function))                                                               \
  X(cuMemAlloc, (CUdeviceptr * memory, size_t bytes))                                                                                   \
  X(cuMemFree, (CUdeviceptr memory))                                                                                                    \
  X(cuMemHostAlloc, (void** memory, size_t bytes, unsigned int flags))                                                                  \
  X(cuMemFreeHost, (void* memory))                                                                                                      \
  X(cuMemHostGetDevicePointer, (CUdeviceptr * address, void* memory, unsigned int flags))                                               \
  X(cuMemcpyHtoD, (CUdeviceptr destination, const void* source, size_t bytes))                                                          \
  X(cuMemcpyDtoH, (void* destination, CUdeviceptr source, size_t bytes))                                                                \
  X(cuMemcpyDtoD, (CUdeviceptr destination, CUdeviceptr source, size_t bytes))                                                          \
  X(cuMemcpyHtoDAsync, (CUdeviceptr destination, const void* source, size_t bytes, CUstream stream))                                    \
  X(cuMemcpyDtoHAsync, (void* destination, CUdeviceptr source, size_t bytes, CUstream stream))                                          \
  X(cuMemcpyDtoDAsync, (CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream))                                    \
  X(cuMemsetD8Async, (CUdeviceptr destination, unsigned char value, size_t count, CUstream stream))                                     \
  X(cuMemsetD16Async, (CUdeviceptr destination, unsigned short value, size_t count, CUstream stream))                                   \
  X(cuMemsetD32Async, (CUdeviceptr destination, unsigned int value, size_t count, CUstream stream))                                     \
  X(cuLaunchKernel,                                                                                                                     \
    (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, unsigned int block_y,    \
     unsigned int block_z, unsigned int shared_bytes, CUstream stream, void** parameters, void** extra))                                \
  X(cuStreamSynchronize, (CUstream stream))                                                                                             \
  X(cuStreamIsCapturing, (CUstream stream, int* status))                                                                                \
  X(cuThreadExchangeStreamCaptureMode, (int* mode))                                                                                     \
  X(cuEventCreate, (CUevent * event, unsigned int flags))                                                                               \
  X(cuEventDestroy, (CUevent event))                                                                                                    \
  X(cuEventRecord, (CUevent event, CUstream stream))                                                                                    \
  X(cuEventSynchronize, (CUevent event))                                                                                                \
  X(cuEventElapsedTime, (float* milliseconds, CUevent start, CUevent end))                                                              \
  X(cuGraphCreate, (CUgraph * graph, unsigned int flags))                                                                               \
  X(cuGraphDestroy, (CUgraph graph))                                                                                                    \
  X(cuGraphAddKernelNode, (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t num_dependencies,                 \
                           const CUDA_KERNEL_NODE_PARAMS* parameters))                                                                  \
  X(cuGraphAddMemcpyNode, (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t num_dependencies,                 \
                           const CUDA_MEMCPY3D* parameters, CUcontext context))                                                         \
  X(cuGraphAddMemsetNode, (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t num_dependencies,                 \
                           const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext context))                                               \
  X(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                                         \
  X(cuGraphExecKernelNodeSetParams, (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* parameters))                    \
  X(cuGraphExecMemcpyNodeSetParams, (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* parameters, CUcontext context))           \
  X(cuGraphExecMemsetNodeSetParams, (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext context)) \
  X(cuGraphExecDestroy, (CUgraphExec exec))                                                                                             \
  X(cuGraphUpload, (CUgraphExec exec, CUstream stream))                                                                                 \
  X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))

// A tensor map, as the driver encodes it.
struct alignas(64) CUtensorMap {
  unsigned long long opaque[16];
};
enum : int {
  CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 = 11
};
enum : int { CU_TENSOR_MAP_SWIZZLE_NONE = 0, CU_TENSOR_MAP_SWIZZLE_32B = 1, CU_TENSOR_MAP_SWIZZLE_64B = 2, CU_TENSOR_MAP_SWIZZLE_128B = 3 };
inline constexpr int CU_TENSOR_MAP_INTERLEAVE_NONE = 0, CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0;
inline constexpr int kTensorMapVersion = 12000;  ///< of the interface, the first that has them

struct CudaDriver {
#define TCC_DECLARE(name, parameters) CUresult(*name) parameters = nullptr;
  TCC_CUDA_FUNCTIONS(TCC_DECLARE)
#undef TCC_DECLARE
  /// Null where the driver is older than 12.0: libraries whose code has no tensor maps run there all the same.
  CUresult (*cuTensorMapEncodeTiled)(CUtensorMap* map, int dtype, unsigned int rank, void* address, const unsigned long long* extents,
                                     const unsigned long long* strides, const unsigned int* box, const unsigned int* element_strides,
                                     int interleave, int swizzle, int l2_promotion, int oob_fill) = nullptr;
};

/// The driver, initialised; loaded once per process. Null when there is none: `*why` then says what is missing.
const CudaDriver* cuda_driver(const char** why);

/// Sets the message "<call> of <what>: <error name> (<error text>)" and returns the status that fits.
int cuda_fail(const CudaDriver& driver, CUresult error, const char* call, const char* what);

/// Makes a context current in this thread for as long as the object lives; the caller's own is restored.
class CurrentContext {
 public:
  CurrentContext(const CudaDriver& driver, CUcontext context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  CUresult result() const { return result_; }

 private:
  const CudaDriver& driver_;
  CUresult result_;
  bool pushed_ = false;
};

}  // namespace tcc::stub
