// RUN: tensor-pointers{target=hip:gfx942},canonicalize,cse

// The rows of a descriptor's tensor begin at multiples of 16 bytes: whole pieces of so many are
// loaded, and what is beyond the extent is replaced. The stride of rows is a multiple of 8.
// CHECK-LABEL: @rows
// CHECK-SAME: %{{[^,]*}}: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %{{[^,]*}}: i32, %{{[^,]*}}: i32, %{{[^,]*}}: i64 {tt.divisibility = 8 : i32}, %{{[^,]*}}: i64,
// CHECK: %[[MORE:.*]] = arith.addi %[[N:.*]], %c7_i64
// CHECK: %[[UP:.*]] = arith.andi %[[MORE]], %c-8_i64
// CHECK: %[[LIMIT:.*]] = tt.splat %[[UP]]
// CHECK: %[[IN:.*]] = arith.cmpi slt, %[[COLUMN:.*]], %[[LIMIT]]
// CHECK: tt.broadcast %[[IN]]
// CHECK: %[[X:.*]] = tt.load
// CHECK: %[[EXACT:.*]] = tt.splat %[[N]]
// CHECK: %[[INSIDE:.*]] = arith.cmpi slt, %[[COLUMN]], %[[EXACT]]
// CHECK: %[[WHERE:.*]] = tt.broadcast %[[INSIDE]]
// CHECK: arith.select %[[WHERE]], %[[X]],
tt.func public @rows(%d: !tt.tensordesc<tensor<16x32xf16>>, %m: i32, %n: i32, %s: i64, %one: i64, %o: tensor<16x32x!tt.ptr<f16>>) {
  %c0 = arith.constant 0 : i32
  %x = tt.descriptor_load %d[%c0, %c0] : !tt.tensordesc<tensor<16x32xf16>> -> tensor<16x32xf16>
  tt.store %o, %x : tensor<16x32x!tt.ptr<f16>>
  tt.return
}
