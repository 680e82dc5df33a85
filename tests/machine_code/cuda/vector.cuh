// RMSNorm and LayerNorm with the row in registers, alone or of a sum: twins of numba_norms/kernels/vector.py.
#pragma once

#include "tile.cuh"

constexpr int kEarly = 32;

// What a twin is compiled for: formats, tile, and whether there is an update, a weight (and for LayerNorm a bias).
template <typename Storage_, typename Parameter_, typename Tile_, bool HasUpdate_, bool HasWeight_> struct Norm {
    using Storage = Storage_;
    using Parameter = Parameter_;
    using Tile = Tile_;
    static constexpr bool HasUpdate = HasUpdate_, HasWeight = HasWeight_, Early = Tile::Size <= kEarly;
};

template <typename N>
__global__ void __launch_bounds__(N::Tile::Threads)
    rms_norm(const typename N::Storage* __restrict__ x, int64_t x_stride,
             const typename N::Storage* __restrict__ update, int64_t update_stride,
             const typename N::Parameter* __restrict__ weight, typename N::Storage* __restrict__ h, int64_t h_stride,
             typename N::Storage* __restrict__ y, int64_t y_stride, float* __restrict__ rstd, int64_t rows,
             int columns, float inverse, float eps) {
    constexpr int kSize = N::Tile::Size;
    __shared__ float partial[N::Tile::Warps];
    float values[kSize], factors[kSize];
    const Place<typename N::Tile> at(rows, columns);
    if (N::Tile::Leaves && at.columns == 0) return;

    at.read(x + at.row * x_stride, values);
    if constexpr (N::HasUpdate) {
        at.read(update + at.row * update_stride, factors);
#pragma unroll
        for (int i = 0; i < kSize; i++) values[i] += factors[i];
    }
    if constexpr (N::HasWeight && N::Early) at.read_parameter(weight, factors);
    if constexpr (N::HasUpdate) at.write(h + at.row * h_stride, values);

    float squares = 0;
#pragma unroll
    for (int i = 0; i < kSize; i++) squares += values[i] * values[i];
    const float scale = rsqrtf(row_sum<N::Tile::Lanes>(squares, partial) * inverse + eps);

    if constexpr (N::HasWeight && !N::Early) at.read_parameter(weight, factors);
#pragma unroll
    for (int i = 0; i < kSize; i++) {
        values[i] *= scale;
        if constexpr (N::HasWeight) values[i] *= factors[i];
    }
    at.write(y + at.row * y_stride, values);
    if (at.leads()) rstd[at.row] = scale;
}

// Two passes over the registers: the mean, then the squares of what is left.
template <typename N>
__global__ void __launch_bounds__(N::Tile::Threads)
    layer_norm(const typename N::Storage* __restrict__ x, int64_t x_stride,
               const typename N::Storage* __restrict__ update, int64_t update_stride,
               const typename N::Parameter* __restrict__ weight, const typename N::Parameter* __restrict__ bias,
               typename N::Storage* __restrict__ h, int64_t h_stride, typename N::Storage* __restrict__ y,
               int64_t y_stride, float* __restrict__ mean, float* __restrict__ rstd, int64_t rows, int columns,
               float inverse, float eps) {
    constexpr int kSize = N::Tile::Size;
    __shared__ float partial_sums[N::Tile::Warps], partial_squares[N::Tile::Warps];
    float values[kSize], factors[kSize], shifts[kSize];
    const Place<typename N::Tile> at(rows, columns);
    if (N::Tile::Leaves && at.columns == 0) return;

    at.read(x + at.row * x_stride, values);
    if constexpr (N::HasUpdate) {
        at.read(update + at.row * update_stride, factors);
#pragma unroll
        for (int i = 0; i < kSize; i++) values[i] += factors[i];
    }
    if constexpr (N::HasWeight && N::Early) {
        at.read_parameter(weight, factors);
        at.read_parameter(bias, shifts);
    }
    if constexpr (N::HasUpdate) at.write(h + at.row * h_stride, values);

    float total = 0;
#pragma unroll
    for (int i = 0; i < kSize; i++) total += values[i];
    const float middle = quotient(row_sum<N::Tile::Lanes>(total, partial_sums), columns, inverse);
    at.centre(values, middle);
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kSize; i++) squares += values[i] * values[i];
    const float scale = rsqrtf(row_sum<N::Tile::Lanes>(squares, partial_squares) * inverse + eps);

    if constexpr (N::HasWeight && !N::Early) {
        at.read_parameter(weight, factors);
        at.read_parameter(bias, shifts);
    }
#pragma unroll
    for (int i = 0; i < kSize; i++) {
        values[i] *= scale;
        if constexpr (N::HasWeight) values[i] = values[i] * factors[i] + shifts[i];
    }
    at.write(y + at.row * y_stride, values);
    if (at.leads()) {
        mean[at.row] = middle;
        rstd[at.row] = scale;
    }
}
