# What Horovod's build takes from a CUDA toolkit and from NCCL, out of the folder that cuda.sh made.
set(CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES "$ENV{CUDA_HOME}/include")
set(NCCL_INCLUDE_DIR "$ENV{CUDA_HOME}/include")
set(NCCL_LIBRARY "$ENV{CUDA_HOME}/lib64/libnccl.so")

# The second name is for the older C++ ABI; cuda.sh compiles for the one that the framework has.
foreach(name horovod_cuda_kernels compatible_horovod_cuda_kernels)
    add_library(${name} STATIC IMPORTED GLOBAL)
    set_target_properties(${name} PROPERTIES
        IMPORTED_LOCATION "$ENV{CUDA_HOME}/lib64/libhorovod_cuda_kernels.a"
        INTERFACE_LINK_LIBRARIES "$ENV{CUDA_HOME}/lib64/libcudart.so")
endforeach()

# From horovod/torch and horovod/tensorflow to the libraries of NVIDIA's wheels, where these are in an image.
set(CMAKE_BUILD_WITH_INSTALL_RPATH TRUE)
set(CMAKE_INSTALL_RPATH "")
foreach(library nccl cuda_runtime cu13)
    list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN/../../nvidia/${library}/lib")
endforeach()
