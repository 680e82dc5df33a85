// RMSNorm and LayerNorm of rows too long for registers, read twice: twins of numba_norms/kernels/stream.py.
#pragma once

#include "vector.cuh"

// Moments of a part of a row; Chan's merge, in which an empty part weighs nothing.
struct Moments {
    float count, mean, m2;
};

__device__ __forceinline__ Moments merge(Moments a, Moments b) {
    const float count = a.count + b.count;
    const float share = a.count == 0 ? 1.0f : __fdividef(b.count, count);
    const float delta = b.mean - a.mean;
    return {count, a.mean + delta * share, a.m2 + (b.m2 + delta * (delta * (a.count * share)))};
}

template <int Lanes> __device__ __forceinline__ Moments shuffled_moments(Moments part) {
#pragma unroll
    for (int offset = Lanes / 2; offset > 0; offset /= 2) {
        part = merge(part, {__shfl_xor_sync(0xffffffffu, part.count, offset),
                            __shfl_xor_sync(0xffffffffu, part.mean, offset),
                            __shfl_xor_sync(0xffffffffu, part.m2, offset)});
    }
    return part;
}

// Lane 0 speaks for all, since the others' last bits differ.
template <int Lanes> __device__ __forceinline__ Moments row_moments(Moments part, float* counts, float* means, float* m2s) {
    part = shuffled_moments<kWarp>(part);
    if constexpr (Lanes > kWarp) {
        constexpr int kWarps = Lanes / kWarp;
        const int warp = threadIdx.x / kWarp, other = threadIdx.x % kWarps;
        if (threadIdx.x % kWarp == 0) {
            counts[warp] = part.count;
            means[warp] = part.mean;
            m2s[warp] = part.m2;
        }
        __syncthreads();
        part = shuffled_moments<kWarps>({counts[other], means[other], m2s[other]});
    }
    part.mean = __shfl_sync(0xffffffffu, part.mean, 0);
    part.m2 = __shfl_sync(0xffffffffu, part.m2, 0);
    return part;
}

// A lane's part of a tile, plus the update's.
template <typename N>
__device__ __forceinline__ void read_sum(const Place<typename N::Tile>& at, const typename N::Storage* __restrict__ x,
                                         const typename N::Storage* __restrict__ update, float* values) {
    at.read(x, values);
    if constexpr (N::HasUpdate) {
        float other[N::Tile::Size];
        at.read(update, other);
#pragma unroll
        for (int i = 0; i < N::Tile::Size; i++) values[i] += other[i];
    }
}

// A lane's part of a tile as moments; leaves it centred.
template <typename Tile> __device__ __forceinline__ Moments tile_moments(const Place<Tile>& at, float* values) {
    float count = Tile::Size, total = 0, squares = 0;
#pragma unroll
    for (int round = 0; round < Tile::Rounds; round++) {
        if (!at.inside(round)) count -= Tile::Width;
    }
#pragma unroll
    for (int i = 0; i < Tile::Size; i++) total += values[i];
    const float mean = quotient(total, count, __fdividef(1.0f, count));
    at.centre(values, mean);
#pragma unroll
    for (int i = 0; i < Tile::Size; i++) squares += values[i] * values[i];
    return {count, mean, squares};
}

template <typename N>
__global__ void __launch_bounds__(N::Tile::Threads)
    rms_norm_stream(const typename N::Storage* __restrict__ x, int64_t x_stride,
                    const typename N::Storage* __restrict__ update, int64_t update_stride,
                    const typename N::Parameter* __restrict__ weight, typename N::Storage* __restrict__ h,
                    int64_t h_stride, typename N::Storage* __restrict__ y, int64_t y_stride,
                    float* __restrict__ rstd, int64_t rows, int columns, float inverse, float eps) {
    constexpr int kSize = N::Tile::Size, kStep = N::Tile::Lanes * kSize;
    __shared__ float partial[N::Tile::Warps];
    float values[kSize], factors[kSize];
    Place<typename N::Tile> at(rows, columns);
    const int begin = at.first;
    x += at.row * x_stride;
    update += at.row * update_stride;
    h += at.row * h_stride;
    y += at.row * y_stride;

    float squares = 0;
    for (; at.first < columns; at.first += kStep) {
        read_sum<N>(at, x, update, values);
        float part = 0;
#pragma unroll
        for (int i = 0; i < kSize; i++) part += values[i] * values[i];
        squares += part;
    }
    const float scale = rsqrtf(row_sum<N::Tile::Lanes>(squares, partial) * inverse + eps);

    for (at.first = begin; at.first < columns; at.first += kStep) {
        read_sum<N>(at, x, update, values);
        if constexpr (N::HasWeight) at.read_parameter(weight, factors);
        if constexpr (N::HasUpdate) at.write(h, values);
#pragma unroll
        for (int i = 0; i < kSize; i++) {
            values[i] *= scale;
            if constexpr (N::HasWeight) values[i] *= factors[i];
        }
        at.write(y, values);
    }
    if (at.lane == 0) rstd[at.row] = scale;
}

template <typename N>
__global__ void __launch_bounds__(N::Tile::Threads)
    layer_norm_stream(const typename N::Storage* __restrict__ x, int64_t x_stride,
                      const typename N::Storage* __restrict__ update, int64_t update_stride,
                      const typename N::Parameter* __restrict__ weight,
                      const typename N::Parameter* __restrict__ bias, typename N::Storage* __restrict__ h,
                      int64_t h_stride, typename N::Storage* __restrict__ y, int64_t y_stride,
                      float* __restrict__ mean, float* __restrict__ rstd, int64_t rows, int columns, float inverse,
                      float eps) {
    constexpr int kSize = N::Tile::Size, kStep = N::Tile::Lanes * kSize;
    __shared__ float counts[N::Tile::Warps], means[N::Tile::Warps], m2s[N::Tile::Warps];
    float values[kSize], factors[kSize], shifts[kSize];
    Place<typename N::Tile> at(rows, columns);
    const int begin = at.first;
    x += at.row * x_stride;
    update += at.row * update_stride;
    h += at.row * h_stride;
    y += at.row * y_stride;

    Moments row = {0, 0, 0};
    for (; at.first < columns; at.first += kStep) {
        read_sum<N>(at, x, update, values);
        row = merge(row, tile_moments(at, values));
    }
    row = row_moments<N::Tile::Lanes>(row, counts, means, m2s);
    const float scale = rsqrtf(row.m2 * inverse + eps);

    for (at.first = begin; at.first < columns; at.first += kStep) {
        read_sum<N>(at, x, update, values);
        if constexpr (N::HasWeight) {
            at.read_parameter(weight, factors);
            at.read_parameter(bias, shifts);
        }
        if constexpr (N::HasUpdate) at.write(h, values);
#pragma unroll
        for (int i = 0; i < kSize; i++) {
            values[i] = (values[i] - row.mean) * scale;
            if constexpr (N::HasWeight) values[i] = values[i] * factors[i] + shifts[i];
        }
        at.write(y, values);
    }
    if (at.lane == 0) {
        mean[at.row] = row.mean;
        rstd[at.row] = scale;
    }
}
