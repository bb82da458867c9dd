// RUN: uniform-atomics

// CHECK-LABEL: @one_address
// CHECK: %[[W:.*]] = arith.select %mask, %v,
// CHECK: %[[SUM:.*]] = "tt.reduce"(%[[W]])
// CHECK: arith.addi
// CHECK: %[[ANY:.*]] = "tt.reduce"(%mask)
// CHECK: arith.ori
// CHECK: tt.atomic_rmw add, acq_rel, gpu, %out, %[[SUM]], %[[ANY]] : (!tt.ptr<i32>, i32, i1) -> i32
tt.func public @one_address(%out: !tt.ptr<i32>, %v: tensor<64xi32>, %mask: tensor<64xi1>) {
  %p = tt.splat %out : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
  %old = tt.atomic_rmw add, acq_rel, gpu, %p, %v, %mask : (tensor<64x!tt.ptr<i32>>, tensor<64xi32>, tensor<64xi1>) -> tensor<64xi32>
  tt.return
}

// What each element found is wanted.
// CHECK-LABEL: @old_values
// CHECK: tt.atomic_rmw max, relaxed, gpu, %{{.*}}, %v : (tensor<8x!tt.ptr<i32>>
tt.func public @old_values(%out: !tt.ptr<i32>, %v: tensor<8xi32>, %to: tensor<8x!tt.ptr<i32>>) {
  %p = tt.splat %out : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %old = tt.atomic_rmw max, relaxed, gpu, %p, %v : (tensor<8x!tt.ptr<i32>>, tensor<8xi32>) -> tensor<8xi32>
  tt.store %to, %old : tensor<8x!tt.ptr<i32>>
  tt.return
}

// The last of several exchanges stays: they are no sum.
// CHECK-LABEL: @exchange
// CHECK: tt.atomic_rmw exch, relaxed, gpu, %{{.*}}, %v : (tensor<8x!tt.ptr<i32>>
tt.func public @exchange(%out: !tt.ptr<i32>, %v: tensor<8xi32>) {
  %p = tt.splat %out : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %old = tt.atomic_rmw exch, relaxed, gpu, %p, %v : (tensor<8x!tt.ptr<i32>>, tensor<8xi32>) -> tensor<8xi32>
  tt.return
}
