// RUN: structure

// CHECK-LABEL: @early_return
// CHECK-NEXT: scf.if %c {
// CHECK-NEXT: } else {
// CHECK-NEXT: tt.store %p, %x
// CHECK-NEXT: }
// CHECK-NEXT: tt.return
tt.func public @early_return(%c: i1, %p: !tt.ptr<f32>, %x: f32) {
  cf.cond_br %c, ^bb1, ^bb2
^bb1:
  tt.return
^bb2:
  tt.store %p, %x : !tt.ptr<f32>
  tt.return
}

// CHECK-LABEL: @diamond
// CHECK: %[[R:.*]] = scf.if %c -> (f32) {
// CHECK-NEXT: arith.addf
// CHECK-NEXT: scf.yield
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %x : f32
// CHECK-NEXT: }
// CHECK-NEXT: tt.store %p, %[[R]]
// CHECK-NOT: tt.store
tt.func public @diamond(%c: i1, %p: !tt.ptr<f32>, %x: f32) {
  cf.cond_br %c, ^bb1(%x : f32), ^bb2(%x : f32)
^bb1(%a: f32):
  %b = arith.addf %a, %a : f32
  cf.br ^bb2(%b : f32)
^bb2(%d: f32):
  tt.store %p, %d : !tt.ptr<f32>
  tt.return
}

// The shared block is copied where one path returns before it.
// CHECK-LABEL: @shared
// CHECK: scf.if %c
// CHECK: scf.if %d
// CHECK: tt.store %p, %x
// CHECK: tt.store %p, %x
// CHECK-NOT: cf.
tt.func public @shared(%c: i1, %d: i1, %p: !tt.ptr<f32>, %x: f32) {
  cf.cond_br %c, ^bb1, ^bb2
^bb1:
  cf.cond_br %d, ^bb3, ^bb2
^bb2:
  tt.store %p, %x : !tt.ptr<f32>
  tt.return
^bb3:
  tt.return
}

// CHECK-LABEL: @cycle
// CHECK: cf.br
tt.func public @cycle(%c: i1) {
  cf.br ^bb1
^bb1:
  cf.cond_br %c, ^bb1, ^bb2
^bb2:
  tt.return
}

// Regions of scalars, too.
// CHECK-LABEL: @combine
// CHECK: "tt.reduce"
// CHECK: %[[R:.*]] = scf.if
// CHECK: scf.yield
// CHECK: scf.yield
// CHECK: tt.reduce.return %[[R]] : f32
// CHECK-NOT: cf.
tt.func public @combine(%p: !tt.ptr<f32>, %x: tensor<64xf32>) {
  %r = "tt.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ogt, %a, %b : f32
    cf.cond_br %c, ^bb1, ^bb2
  ^bb1:
    tt.reduce.return %a : f32
  ^bb2:
    tt.reduce.return %b : f32
  }) : (tensor<64xf32>) -> f32
  tt.store %p, %r : !tt.ptr<f32>
  tt.return
}
