// RUN: dot-precision{target=cuda:80}

// CHECK-LABEL: @split
// CHECK: %[[A0:.*]] = arith.truncf %a : tensor<16x32xf32> to tensor<16x32xbf16>
// CHECK: %[[W:.*]] = arith.extf %[[A0]]
// CHECK: %[[R:.*]] = arith.subf %a, %[[W]]
// CHECK: %[[A1:.*]] = arith.truncf %[[R]]
// CHECK: %[[B0:.*]] = arith.truncf %b
// CHECK: %[[B1:.*]] = arith.truncf
// CHECK: %[[S:.*]] = tt.dot %[[A1]], %[[B0]], %cst : tensor<16x32xbf16>
// CHECK: %[[T:.*]] = tt.dot %[[A0]], %[[B1]], %[[S]] : tensor<16x32xbf16>
// CHECK: %[[N:.*]] = arith.cmpf uno, %[[T]], %[[T]]
// CHECK: %[[U:.*]] = arith.select %[[N]], %{{.*}}, %[[T]]
// CHECK: %[[P:.*]] = tt.dot %[[A0]], %[[B0]], %[[U]] : tensor<16x32xbf16>
// CHECK: arith.addf %c, %[[P]]
tt.func public @split(%a: tensor<16x32xf32>, %b: tensor<32x16xf32>, %c: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %r = tt.dot %a, %b, %c, inputPrecision = bf16x3 : tensor<16x32xf32> * tensor<32x16xf32> -> tensor<16x16xf32>
  tt.return %r : tensor<16x16xf32>
}

// CHECK-LABEL: @shallow
// CHECK: tt.dot %a, %b, %c, inputPrecision = tf32x3 : tensor<16x4xf32>
tt.func public @shallow(%a: tensor<16x4xf32>, %b: tensor<4x16xf32>, %c: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %r = tt.dot %a, %b, %c, inputPrecision = tf32x3 : tensor<16x4xf32> * tensor<4x16xf32> -> tensor<16x16xf32>
  tt.return %r : tensor<16x16xf32>
}

// CHECK-LABEL: @half
// CHECK: %[[X:.*]] = tt.fp_to_fp %a : tensor<16x32xf8E5M2> -> tensor<16x32xf16>
// CHECK: %[[Y:.*]] = tt.fp_to_fp %b
// CHECK: %[[C:.*]] = arith.extf %c : tensor<16x16xf16> to tensor<16x16xf32>
// CHECK: %[[D:.*]] = tt.dot %[[X]], %[[Y]], %[[C]] : tensor<16x32xf16> * tensor<32x16xf16> -> tensor<16x16xf32>
// CHECK: arith.truncf %[[D]] : tensor<16x16xf32> to tensor<16x16xf16>
tt.func public @half(%a: tensor<16x32xf8E5M2>, %b: tensor<32x16xf8E5M2>, %c: tensor<16x16xf16>) -> tensor<16x16xf16> {
  %r = tt.dot %a, %b, %c : tensor<16x32xf8E5M2> * tensor<32x16xf8E5M2> -> tensor<16x16xf16>
  tt.return %r : tensor<16x16xf16>
}

// CHECK-LABEL: @carried
// CHECK: %[[I:.*]] = arith.extf %c : tensor<16x16xf16> to tensor<16x16xf32>
// CHECK: %[[L:.*]]:2 = scf.for %{{.*}} iter_args(%[[S:.*]] = %[[I]], %[[P:.*]] = %a) -> (tensor<16x16xf32>, tensor<16x32xf16>)
// CHECK-NEXT: %[[D:.*]] = tt.dot %[[P]], %b, %[[S]] : tensor<16x32xf16> * tensor<32x16xf16> -> tensor<16x16xf32>
// CHECK-NEXT: %[[E:.*]] = tt.dot %a, %b, %[[D]] : tensor<16x32xf16> * tensor<32x16xf16> -> tensor<16x16xf32>
// CHECK-NEXT: scf.yield %[[E]], %[[P]]
// CHECK: %[[R:.*]] = arith.truncf %[[L]]#0 : tensor<16x16xf32> to tensor<16x16xf16>
// CHECK: tt.return %[[R]]
tt.func public @carried(%a: tensor<16x32xf16>, %b: tensor<32x16xf16>, %c: tensor<16x16xf16>, %n: i32) -> tensor<16x16xf16> {
  %z = arith.constant 0 : i32
  %o = arith.constant 1 : i32
  %l:2 = scf.for %i = %z to %n step %o iter_args(%s = %c, %p = %a) -> (tensor<16x16xf16>, tensor<16x32xf16>) : i32 {
    %d = tt.dot %p, %b, %s : tensor<16x32xf16> * tensor<32x16xf16> -> tensor<16x16xf16>
    %e = tt.dot %a, %b, %d : tensor<16x32xf16> * tensor<32x16xf16> -> tensor<16x16xf16>
    scf.yield %e, %p : tensor<16x16xf16>, tensor<16x32xf16>
  }
  tt.return %l#0 : tensor<16x16xf16>
}

// A sum that the loop uses otherwise is rounded each time.
// CHECK-LABEL: @used_inside
// CHECK: scf.for {{.*}} -> (tensor<16x16xf16>)
// CHECK: arith.truncf
// CHECK: scf.yield
tt.func public @used_inside(%a: tensor<16x32xf16>, %b: tensor<32x16xf16>, %c: tensor<16x16xf16>, %n: i32) -> tensor<16x16xf16> {
  %z = arith.constant 0 : i32
  %o = arith.constant 1 : i32
  %l = scf.for %i = %z to %n step %o iter_args(%s = %c) -> (tensor<16x16xf16>) : i32 {
    %m = arith.mulf %s, %s : tensor<16x16xf16>
    %d = tt.dot %a, %b, %s : tensor<16x32xf16> * tensor<32x16xf16> -> tensor<16x16xf16>
    %e = arith.addf %d, %m : tensor<16x16xf16>
    scf.yield %e : tensor<16x16xf16>
  }
  tt.return %l : tensor<16x16xf16>
}
