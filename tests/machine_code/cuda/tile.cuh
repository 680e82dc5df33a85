// A row in registers: accesses of up to 16 bytes a lane, sums over lanes and blocks.
//
// What all twins share.  A twin is the CUDA C++ that one would write by hand for the algorithm of one of our kernels:
// the same tile, order of loads, tree of sums and results.  It is there to be compiled and counted; nothing launches it.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int kWarp = 32;

// -- formats ---------------------------------------------------------------------------------------------------------

__device__ __forceinline__ float2 widen(__half2 pair) { return __half22float2(pair); }
__device__ __forceinline__ float2 widen(__nv_bfloat162 pair) { return __bfloat1622float2(pair); }
__device__ __forceinline__ float2 widen(float2 pair) { return pair; }

template <typename T> struct Pair;
template <> struct Pair<__half> {
    using type = __half2;
    static __device__ __forceinline__ type narrow(float2 pair) { return __float22half2_rn(pair); }
};
template <> struct Pair<__nv_bfloat16> {
    using type = __nv_bfloat162;
    static __device__ __forceinline__ type narrow(float2 pair) { return __float22bfloat162_rn(pair); }
};
template <> struct Pair<float> {
    using type = float2;
    static __device__ __forceinline__ type narrow(float2 pair) { return pair; }
};

// -- accesses --------------------------------------------------------------------------------------------------------

template <int Bytes> struct Words;
template <> struct Words<16> { using type = uint4; };
template <> struct Words<8> { using type = uint2; };
template <> struct Words<4> { using type = uint32_t; };

// N consecutive elements, in accesses of 16 bytes or one of fewer.
template <int N, typename T> __device__ __forceinline__ void load(const T* __restrict__ from, float* registers) {
    constexpr int kCount = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;
    using Access = typename Words<kCount * sizeof(T)>::type;
#pragma unroll
    for (int first = 0; first < N; first += kCount) {
        const Access words = *reinterpret_cast<const Access*>(from + first);
        const auto* pairs = reinterpret_cast<const typename Pair<T>::type*>(&words);
#pragma unroll
        for (int k = 0; k < kCount / 2; k++) {
            const float2 both = widen(pairs[k]);
            registers[first + 2 * k] = both.x;
            registers[first + 2 * k + 1] = both.y;
        }
    }
}

template <int N, typename T> __device__ __forceinline__ void store(T* __restrict__ to, const float* registers) {
    constexpr int kCount = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;
    using Access = typename Words<kCount * sizeof(T)>::type;
#pragma unroll
    for (int first = 0; first < N; first += kCount) {
        Access words;
        auto* pairs = reinterpret_cast<typename Pair<T>::type*>(&words);
#pragma unroll
        for (int k = 0; k < kCount / 2; k++) {
            pairs[k] = Pair<T>::narrow(make_float2(registers[first + 2 * k], registers[first + 2 * k + 1]));
        }
        *reinterpret_cast<Access*>(to + first) = words;
    }
}

// -- tiles -----------------------------------------------------------------------------------------------------------

// Lanes that share a row, rows of a block, elements of an access, accesses of a lane; how many of them a row fills.
template <int Lanes_, int Rows_, int Width_, int Rounds_, int Full_> struct Tile {
    static constexpr int Lanes = Lanes_, Rows = Rows_, Width = Width_, Rounds = Rounds_, Full = Full_;
    static constexpr bool Leaves = Rows > 1 && Lanes == kWarp;  // a warp without a row has nobody to wait for
    static constexpr int Sure = Rows == 1 || Leaves ? Full : 0;  // a lane past the last row has no columns
    static constexpr int Threads = Lanes * Rows, Size = Width * Rounds, Warps = Lanes > kWarp ? Lanes / kWarp : 1;
};

// Where a thread works.  A lane past the last row has no columns.
template <typename Tile> struct Place {
    int64_t row;
    int lane, first, columns;

    __device__ __forceinline__ Place(int64_t rows, int row_columns)
        : row(blockIdx.x), lane(threadIdx.x % Tile::Lanes), first(lane * Tile::Width), columns(row_columns) {
        if constexpr (Tile::Rows > 1) {
            row = row * Tile::Rows + threadIdx.x / Tile::Lanes;
            if (row >= rows) columns = 0;
        }
    }

    __device__ __forceinline__ bool leads() const { return lane == 0 && (Tile::Rows == 1 || columns > 0); }
    __device__ __forceinline__ int column(int round) const { return round * Tile::Lanes * Tile::Width + first; }
    __device__ __forceinline__ bool inside(int round) const { return round < Tile::Sure || column(round) < columns; }

    // A row: zeros past its end, which add nothing to a sum.
    template <typename T> __device__ __forceinline__ void read(const T* __restrict__ row, float* tile) const {
#pragma unroll
        for (int round = 0; round < Tile::Rounds; round++) {
            float* part = tile + round * Tile::Width;
            if (inside(round)) {
                load<Tile::Width>(row + column(round), part);
            } else {
#pragma unroll
                for (int k = 0; k < Tile::Width; k++) part[k] = 0;
            }
        }
    }

    // A weight or bias, which is there whatever the row; nobody looks past its end.
    template <typename T> __device__ __forceinline__ void read_parameter(const T* __restrict__ all, float* tile) const {
#pragma unroll
        for (int round = 0; round < Tile::Rounds; round++) {
            if (round < Tile::Full || inside(round)) {
                load<Tile::Width>(all + column(round), tile + round * Tile::Width);
            }
        }
    }

    // Subtracts the mean, but leaves zeros past the end of the row.
    __device__ __forceinline__ void centre(float* tile, float mean) const {
#pragma unroll
        for (int i = 0; i < Tile::Size; i++) {
            if (inside(i / Tile::Width)) tile[i] -= mean;
        }
    }

    template <typename T> __device__ __forceinline__ void write(T* __restrict__ row, const float* tile) const {
#pragma unroll
        for (int round = 0; round < Tile::Rounds; round++) {
            if (inside(round)) store<Tile::Width>(row + column(round), tile + round * Tile::Width);
        }
    }
};

// -- sums ------------------------------------------------------------------------------------------------------------

template <int Lanes> __device__ __forceinline__ float shuffled_sum(float value) {
#pragma unroll
    for (int offset = Lanes / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}

// Past a warp, every warp adds up the partial sums, so one barrier is enough.
template <int Lanes> __device__ __forceinline__ float row_sum(float value, float* partial) {
    value = shuffled_sum<Lanes < kWarp ? Lanes : kWarp>(value);
    if constexpr (Lanes > kWarp) {
        constexpr int kWarps = Lanes / kWarp;
        if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = value;
        __syncthreads();
        value = shuffled_sum<kWarps>(partial[threadIdx.x % kWarps]);
    }
    return value;
}

// value / divisor from the rounded reciprocal, its remainder put right.
__device__ __forceinline__ float quotient(float value, float divisor, float inverse) {
    const float near = value * inverse;
    return fmaf(fmaf(-near, divisor, value), inverse, near);
}
