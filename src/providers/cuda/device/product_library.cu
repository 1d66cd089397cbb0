// Products by cuBLASLt, which is opened by name: in the folder $LAMINA_CUDA_LIBS, by the loader's own search,
// in the toolkit's folder. Its workspace is the caller's; it allocates nothing on a device.
#include <cublasLt.h>
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "providers/cuda/device/product.cuh"

namespace lamina::cuda {
namespace {

#define LAMINA_TEXT_OF_(x) #x
#define LAMINA_TEXT_OF(x) LAMINA_TEXT_OF_(x)
constexpr const char* kFileName = "libcublasLt.so." LAMINA_TEXT_OF(CUBLAS_VER_MAJOR);
constexpr const char* kToolkitFolder = "/usr/local/cuda/lib64";

// The functions that are used, by their names.
struct Functions {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulDescCreate) create_product;
  decltype(&cublasLtMatmulDescSetAttribute) set_product;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithm;
};

void* OpenLibrary() {
  std::string names[3];
  int count = 0;
  if (const char* folder = std::getenv("LAMINA_CUDA_LIBS")) {
    names[count++] = std::string(folder) + "/" + kFileName;
  }
  names[count++] = kFileName;
  names[count++] = std::string(kToolkitFolder) + "/" + kFileName;
  for (int i = 0; i < count; ++i) {
    if (void* library = dlopen(names[i].c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

// How one size of product is computed. Descriptions live as long as the process, as the sizes of a session's
// products are few.
struct Way {
  bool usable = false;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t x = nullptr;
  cublasLtMatrixLayout_t y = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
};

// type, device, m, n, k, strides, whether x is aligned
using WayKey = std::tuple<int, int, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool>;

// Thread-safe.
class Library {
 public:
  static Library& Get() {
    static Library library;
    return library;
  }

  bool usable() const { return usable_; }

  int Multiply(const LaunchTarget& target, const ProductArguments& arguments, bool* done) {
    const CurrentDevice current(target.device);
    if (current.error() != cudaSuccess) return Outcome(current.error());
    cublasLtHandle_t handle = nullptr;
    const Way way = FindWay(target, arguments, &handle);
    if (!way.usable) return 0;
    const float beta = 0;
    const cublasStatus_t status =
        functions_.matmul(handle, way.product, &arguments.alpha, arguments.b, way.b, arguments.x, way.x,
                          &beta, arguments.y, way.y, arguments.y, way.y, &way.algorithm, arguments.workspace,
                          arguments.workspace_bytes, static_cast<cudaStream_t>(target.stream));
    if (status != CUBLAS_STATUS_SUCCESS) {
      const cudaError_t error = cudaGetLastError();
      return static_cast<int>(error != cudaSuccess ? error : cudaErrorUnknown);
    }
    *done = true;
    return 0;
  }

 private:
  Library() {
    void* library = OpenLibrary();
    usable_ = library && Find(library, "cublasLtCreate", &functions_.create) &&
              Find(library, "cublasLtMatmul", &functions_.matmul) &&
              Find(library, "cublasLtMatmulDescCreate", &functions_.create_product) &&
              Find(library, "cublasLtMatmulDescSetAttribute", &functions_.set_product) &&
              Find(library, "cublasLtMatrixLayoutCreate", &functions_.create_layout) &&
              Find(library, "cublasLtMatmulPreferenceCreate", &functions_.create_preference) &&
              Find(library, "cublasLtMatmulPreferenceSetAttribute", &functions_.set_preference) &&
              Find(library, "cublasLtMatmulPreferenceDestroy", &functions_.destroy_preference) &&
              Find(library, "cublasLtMatmulAlgoGetHeuristic", &functions_.find_algorithm);
  }

  static cudaDataType DataTypeOf(ElementType type) {
    if (type == ElementType::kFloat16) return CUDA_R_16F;
    return type == ElementType::kBfloat16 ? CUDA_R_16BF : CUDA_R_32F;
  }

  Way FindWay(const LaunchTarget& target, const ProductArguments& arguments, cublasLtHandle_t* handle) {
    const int64_t element_bytes = arguments.type == ElementType::kFloat ? 4 : 2;
    const bool aligned = IsAligned(arguments.x, 16) && IsAligned(arguments.y, 16) &&
                         arguments.x_stride * element_bytes % 16 == 0 &&
                         arguments.y_stride * element_bytes % 16 == 0;
    const WayKey key{static_cast<int>(arguments.type),
                     target.device,
                     arguments.m,
                     arguments.n,
                     arguments.k,
                     arguments.x_stride,
                     arguments.packed_k,
                     arguments.y_stride,
                     aligned};
    const std::lock_guard lock(mutex_);
    cublasLtHandle_t& of_device = handles_[target.device];
    if (!of_device && functions_.create(&of_device) != CUBLAS_STATUS_SUCCESS) return Way();
    *handle = of_device;
    const auto [found, is_new] = ways_.try_emplace(key);
    if (is_new)
      found->second = MakeWay(of_device, arguments, static_cast<uint32_t>(aligned ? 16 : element_bytes));
    return found->second;
  }

  // Row-major y = x b^T is column-major y^T = b x^T: its first operand is b, transposed.
  Way MakeWay(cublasLtHandle_t handle, const ProductArguments& arguments, uint32_t alignment_bytes) {
    Way way;
    const cudaDataType type = DataTypeOf(arguments.type);
    const auto n = static_cast<uint64_t>(arguments.n);
    const auto m = static_cast<uint64_t>(arguments.m);
    const auto k = static_cast<uint64_t>(arguments.k);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    cublasLtMatmulPreference_t preference = nullptr;
    if (functions_.create_product(&way.product, CUBLAS_COMPUTE_32F, CUDA_R_32F) != CUBLAS_STATUS_SUCCESS ||
        functions_.set_product(way.product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed) !=
            CUBLAS_STATUS_SUCCESS ||
        functions_.create_layout(&way.b, type, k, n, arguments.packed_k) != CUBLAS_STATUS_SUCCESS ||
        functions_.create_layout(&way.x, type, k, m, arguments.x_stride) != CUBLAS_STATUS_SUCCESS ||
        functions_.create_layout(&way.y, type, n, m, arguments.y_stride) != CUBLAS_STATUS_SUCCESS ||
        functions_.create_preference(&preference) != CUBLAS_STATUS_SUCCESS) {
      return way;
    }
    functions_.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                              &arguments.workspace_bytes, sizeof arguments.workspace_bytes);
    for (const cublasLtMatmulPreferenceAttributes_t operand :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      functions_.set_preference(preference, operand, &alignment_bytes, sizeof alignment_bytes);
    }
    cublasLtMatmulHeuristicResult_t result = {};
    int found = 0;
    const cublasStatus_t status = functions_.find_algorithm(handle, way.product, way.b, way.x, way.y, way.y,
                                                            preference, 1, &result, &found);
    functions_.destroy_preference(preference);
    way.usable = status == CUBLAS_STATUS_SUCCESS && found > 0;
    way.algorithm = result.algo;
    return way;
  }

  bool usable_ = false;
  Functions functions_ = {};
  std::mutex mutex_;
  std::map<int, cublasLtHandle_t> handles_;  // guarded by mutex_
  std::map<WayKey, Way> ways_;               // guarded by mutex_
};

}  // namespace

int LaunchLibraryProduct(const LaunchTarget& target, const ProductArguments& arguments, bool* done) {
  *done = false;
  if (arguments.c) return 0;
  try {
    Library& library = Library::Get();
    return library.usable() ? library.Multiply(target, arguments, done) : 0;
  } catch (const std::exception&) {  // no host memory for the description: own kernels do without
    return 0;
  }
}

}  // namespace lamina::cuda
