// RUN: convert-loads

#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [16, 2], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 16, 16]}>
#left = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory

// The load is converted; what is computed from it, and constants from before the loop, have the
// operand's layout; what the loop does not change is converted before it.
// CHECK-LABEL: @computed
// CHECK-DAG: arith.constant dense<2.000000e+00> : tensor<64x16xf16, #{{.*}}dot_op
// CHECK-DAG: %[[S:.*]] = ttg.convert_layout %scale : {{.*}} -> tensor<64x16xf16, #{{.*}}dot_op
// CHECK: scf.for
// CHECK-NEXT: %[[X:.*]] = tt.load %p
// CHECK-NEXT: %[[C:.*]] = ttg.convert_layout %[[X]] : tensor<64x16xf16, #blocked> -> tensor<64x16xf16, #{{.*}}dot_op
// CHECK-NEXT: %[[Y:.*]] = arith.mulf %[[C]], %{{.*}} : tensor<64x16xf16, #{{.*}}dot_op
// CHECK-NEXT: %[[Z:.*]] = arith.addf %[[Y]], %[[S]] : tensor<64x16xf16, #{{.*}}dot_op
// CHECK-NEXT: %{{.*}} = ttng.warp_group_dot %[[Z]]
tt.func public @computed(%n: i32, %p: tensor<64x16x!tt.ptr<f16>, #blocked>, %scale: tensor<64x16xf16, #blocked>, %b: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<64x16xf32, #mma>) -> tensor<64x16xf32, #mma> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %two = arith.constant dense<2.0> : tensor<64x16xf16, #blocked>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (tensor<64x16xf32, #mma>) : i32 {
    %x = tt.load %p : tensor<64x16x!tt.ptr<f16>, #blocked>
    %y = arith.mulf %x, %two : tensor<64x16xf16, #blocked>
    %s = arith.addf %y, %scale : tensor<64x16xf16, #blocked>
    %a = ttg.convert_layout %s : tensor<64x16xf16, #blocked> -> tensor<64x16xf16, #left>
    %d = ttng.warp_group_dot %a, %b, %acc {inputPrecision = 0 : i32} : tensor<64x16xf16, #left> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    scf.yield %d : tensor<64x16xf32, #mma>
  }
  tt.return %r : tensor<64x16xf32, #mma>
}

// What is loaded has more bytes than the operand.
// CHECK-LABEL: @narrowed
// CHECK: %[[T:.*]] = arith.truncf
// CHECK: ttg.convert_layout %[[T]]
tt.func public @narrowed(%n: i32, %p: tensor<64x16x!tt.ptr<f32>, #blocked>, %b: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<64x16xf32, #mma>) -> tensor<64x16xf32, #mma> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (tensor<64x16xf32, #mma>) : i32 {
    %x = tt.load %p : tensor<64x16x!tt.ptr<f32>, #blocked>
    %y = arith.truncf %x : tensor<64x16xf32, #blocked> to tensor<64x16xf16, #blocked>
    %a = ttg.convert_layout %y : tensor<64x16xf16, #blocked> -> tensor<64x16xf16, #left>
    %d = ttng.warp_group_dot %a, %b, %acc {inputPrecision = 0 : i32} : tensor<64x16xf16, #left> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    scf.yield %d : tensor<64x16xf32, #mma>
  }
  tt.return %r : tensor<64x16xf32, #mma>
}

// A thread would read two bytes at a time.
// CHECK-LABEL: @bytes
// CHECK: %[[T:.*]] = arith.sitofp
// CHECK: ttg.convert_layout %[[T]]
tt.func public @bytes(%n: i32, %p: tensor<64x16x!tt.ptr<i8>, #blocked>, %b: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<64x16xf32, #mma>) -> tensor<64x16xf32, #mma> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (tensor<64x16xf32, #mma>) : i32 {
    %x = tt.load %p : tensor<64x16x!tt.ptr<i8>, #blocked>
    %y = arith.sitofp %x : tensor<64x16xi8, #blocked> to tensor<64x16xf16, #blocked>
    %a = ttg.convert_layout %y : tensor<64x16xf16, #blocked> -> tensor<64x16xf16, #left>
    %d = ttng.warp_group_dot %a, %b, %acc {inputPrecision = 0 : i32} : tensor<64x16xf16, #left> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    scf.yield %d : tensor<64x16xf32, #mma>
  }
  tt.return %r : tensor<64x16xf32, #mma>
}

// The loop carries what the operand is computed from.
// CHECK-LABEL: @carried
// CHECK: %[[T:.*]] = arith.addf
// CHECK: ttg.convert_layout %[[T]]
tt.func public @carried(%n: i32, %p: tensor<64x16x!tt.ptr<f16>, #blocked>, %w: tensor<64x16xf16, #blocked>, %b: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<64x16xf32, #mma>) -> tensor<64x16xf32, #mma> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r, %s = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z, %v = %w) -> (tensor<64x16xf32, #mma>, tensor<64x16xf16, #blocked>) : i32 {
    %x = tt.load %p : tensor<64x16x!tt.ptr<f16>, #blocked>
    %y = arith.addf %x, %v : tensor<64x16xf16, #blocked>
    %a = ttg.convert_layout %y : tensor<64x16xf16, #blocked> -> tensor<64x16xf16, #left>
    %d = ttng.warp_group_dot %a, %b, %acc {inputPrecision = 0 : i32} : tensor<64x16xf16, #left> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    scf.yield %d, %x : tensor<64x16xf32, #mma>, tensor<64x16xf16, #blocked>
  }
  tt.return %r : tensor<64x16xf32, #mma>
}

// It would be computed twice.
// CHECK-LABEL: @used
// CHECK: %[[T:.*]] = arith.mulf
// CHECK: ttg.convert_layout %[[T]]
tt.func public @used(%n: i32, %p: tensor<64x16x!tt.ptr<f16>, #blocked>, %b: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<64x16xf32, #mma>) -> tensor<64x16xf32, #mma> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (tensor<64x16xf32, #mma>) : i32 {
    %x = tt.load %p : tensor<64x16x!tt.ptr<f16>, #blocked>
    %y = arith.mulf %x, %x : tensor<64x16xf16, #blocked>
    %a = ttg.convert_layout %y : tensor<64x16xf16, #blocked> -> tensor<64x16xf16, #left>
    tt.store %p, %y : tensor<64x16x!tt.ptr<f16>, #blocked>
    %d = ttng.warp_group_dot %a, %b, %acc {inputPrecision = 0 : i32} : tensor<64x16xf16, #left> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    scf.yield %d : tensor<64x16xf32, #mma>
  }
  tt.return %r : tensor<64x16xf32, #mma>
}
