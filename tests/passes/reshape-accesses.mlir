// RUN: reshape-accesses

// CHECK-LABEL: @store
// CHECK: %[[T:.*]] = tt.trans %v
// CHECK: %[[R:.*]] = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
// CHECK: %[[E:.*]] = tt.expand_dims %[[R]] {axis = 1 : i32} : tensor<8xi32> -> tensor<8x1xi32>
// CHECK: %[[M:.*]] = arith.muli %[[E]], %{{.*}} : tensor<8x1xi32>
// CHECK: tt.broadcast %[[M]] : tensor<8x1xi32> -> tensor<8x4xi32>
// CHECK: tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
// CHECK: %[[P:.*]] = tt.addptr %{{.*}}, %{{.*}} : tensor<8x4x!tt.ptr<f32>>, tensor<8x4xi32>
// CHECK: tt.store %[[P]], %[[T]] : tensor<8x4x!tt.ptr<f32>>
tt.func public @store(%out: !tt.ptr<f32>, %v: tensor<4x8xf32>) {
  %t = tt.trans %v {order = array<i32: 1, 0>} : tensor<4x8xf32> -> tensor<8x4xf32>
  %f = tt.reshape %t : tensor<8x4xf32> -> tensor<32xf32>
  %r = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
  %s = tt.splat %out : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
  %p = tt.addptr %s, %r : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
  tt.store %p, %f : tensor<32x!tt.ptr<f32>>
  tt.return
}

// The mask and what is computed element by element come along.
// CHECK-LABEL: @masked
// CHECK: %[[X:.*]] = arith.addf %{{.*}}, %{{.*}} : tensor<8x4xf32>
// CHECK: %[[MASK:.*]] = arith.cmpi slt, %{{.*}}, %{{.*}} : tensor<8x4xi32>
// CHECK: tt.store %{{.*}}, %[[X]], %[[MASK]] : tensor<8x4x!tt.ptr<f32>>
tt.func public @masked(%out: !tt.ptr<f32>, %v: tensor<4x8xf32>, %n: i32) {
  %t = tt.trans %v {order = array<i32: 1, 0>} : tensor<4x8xf32> -> tensor<8x4xf32>
  %x = arith.addf %t, %t : tensor<8x4xf32>
  %f = tt.reshape %x : tensor<8x4xf32> -> tensor<32xf32>
  %r = tt.make_range {end = 35 : i32, start = 3 : i32} : tensor<32xi32>
  %ns = tt.splat %n : i32 -> tensor<32xi32>
  %m = arith.cmpi slt, %r, %ns : tensor<32xi32>
  %s = tt.splat %out : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
  %p = tt.addptr %s, %r : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
  tt.store %p, %f, %m : tensor<32x!tt.ptr<f32>>
  tt.return
}

// CHECK-LABEL: @load
// CHECK: %[[V:.*]] = tt.load %{{.*}} : tensor<4x8x!tt.ptr<f32>>
// CHECK: tt.trans %[[V]]
tt.func public @load(%x: !tt.ptr<f32>, %to: tensor<8x4x!tt.ptr<f32>>) {
  %r = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
  %s = tt.splat %x : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
  %p = tt.addptr %s, %r : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
  %v = tt.load %p : tensor<32x!tt.ptr<f32>>
  %f = tt.reshape %v : tensor<32xf32> -> tensor<4x8xf32>
  %t = tt.trans %f {order = array<i32: 1, 0>} : tensor<4x8xf32> -> tensor<8x4xf32>
  tt.store %to, %t : tensor<8x4x!tt.ptr<f32>>
  tt.return
}

// Nothing is rearranged: one long loop is better than two.
// CHECK-LABEL: @in_order
// CHECK: tt.store %{{.*}} : tensor<32x!tt.ptr<f32>>
tt.func public @in_order(%out: !tt.ptr<f32>, %v: tensor<4x8xf32>) {
  %f = tt.reshape %v : tensor<4x8xf32> -> tensor<32xf32>
  %r = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
  %s = tt.splat %out : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
  %p = tt.addptr %s, %r : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
  tt.store %p, %f : tensor<32x!tt.ptr<f32>>
  tt.return
}

// Addresses of no such form stay.
// CHECK-LABEL: @scattered
// CHECK: tt.store %to, %{{.*}} : tensor<32x!tt.ptr<f32>>
tt.func public @scattered(%to: tensor<32x!tt.ptr<f32>>, %v: tensor<4x8xf32>) {
  %t = tt.trans %v {order = array<i32: 1, 0>} : tensor<4x8xf32> -> tensor<8x4xf32>
  %f = tt.reshape %t : tensor<8x4xf32> -> tensor<32xf32>
  tt.store %to, %f : tensor<32x!tt.ptr<f32>>
  tt.return
}
