// RUN: narrow-reductions

// CHECK-LABEL: @largest
// CHECK: %[[N:.*]] = "tt.reduce"(%x)
// CHECK: arith.maxsi {{.*}} : i8
// CHECK: %[[M:.*]] = arith.extsi %[[N]] : i8 to i32
// CHECK: tt.store %out, %[[M]]
tt.func public @largest(%out: !tt.ptr<i32>, %x: tensor<64xi8>) {
  %w = arith.extsi %x : tensor<64xi8> to tensor<64xi32>
  %m = "tt.reduce"(%w) <{axis = 0 : i32}> ({
  ^bb0(%a: i32, %b: i32):
    %c = arith.maxsi %a, %b : i32
    tt.reduce.return %c : i32
  }) : (tensor<64xi32>) -> i32
  tt.store %out, %m : !tt.ptr<i32>
  tt.return
}

// As signed numbers 255 is less than 1 in eight bits, but not in more.
// CHECK-LABEL: @other_signs
// CHECK: arith.extui
// CHECK: arith.maxsi {{.*}} : i32
tt.func public @other_signs(%out: !tt.ptr<i32>, %x: tensor<64xi8>) {
  %w = arith.extui %x : tensor<64xi8> to tensor<64xi32>
  %m = "tt.reduce"(%w) <{axis = 0 : i32}> ({
  ^bb0(%a: i32, %b: i32):
    %c = arith.maxsi %a, %b : i32
    tt.reduce.return %c : i32
  }) : (tensor<64xi32>) -> i32
  tt.store %out, %m : !tt.ptr<i32>
  tt.return
}

// CHECK-LABEL: @unsigned_columns
// CHECK: "tt.reduce"(%x)
// CHECK: arith.minui {{.*}} : i16
// CHECK: arith.extsi {{.*}} : tensor<8xi16> to tensor<8xi32>
tt.func public @unsigned_columns(%out: tensor<8x!tt.ptr<i32>>, %x: tensor<64x8xi16>) {
  %w = arith.extsi %x : tensor<64x8xi16> to tensor<64x8xi32>
  %m = "tt.reduce"(%w) <{axis = 0 : i32}> ({
  ^bb0(%a: i32, %b: i32):
    %c = arith.minui %a, %b : i32
    tt.reduce.return %c : i32
  }) : (tensor<64x8xi32>) -> tensor<8xi32>
  tt.store %out, %m : tensor<8x!tt.ptr<i32>>
  tt.return
}

// A sum of bytes does not fit one.
// CHECK-LABEL: @sum
// CHECK: arith.extsi
// CHECK: arith.addi {{.*}} : i32
tt.func public @sum(%out: !tt.ptr<i32>, %x: tensor<64xi8>) {
  %w = arith.extsi %x : tensor<64xi8> to tensor<64xi32>
  %m = "tt.reduce"(%w) <{axis = 0 : i32}> ({
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    tt.reduce.return %c : i32
  }) : (tensor<64xi32>) -> i32
  tt.store %out, %m : !tt.ptr<i32>
  tt.return
}
