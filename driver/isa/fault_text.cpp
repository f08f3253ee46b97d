// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "driver/isa/instruction.h"

namespace neuron::isa {
namespace {

struct FaultText {
  uint8_t code;
  const char* name;
  const char* text;
};

constexpr std::array kFaults = {
    FaultText{NEURON_FAULT_NONE, "NONE", "no fault"},
    FaultText{NEURON_FAULT_ISA_VERSION, "ISA_VERSION",
              "the instruction is of an instruction set version that this device does not have; "
              "build the program for version 1"},
    FaultText{NEURON_FAULT_ILLEGAL_OPCODE, "ILLEGAL_OPCODE",
              "the device does not execute this opcode; check that the program counter is in the "
              "program and that the program was built for this device"},
    FaultText{NEURON_FAULT_WRONG_ENGINE, "WRONG_ENGINE",
              "the instruction was assembled for another engine; load it on an engine of its mask"},
    FaultText{NEURON_FAULT_WRONG_GENERATION, "WRONG_GENERATION",
              "the instruction needs a later generation of the device; build the program for this "
              "one"},
    FaultText{NEURON_FAULT_ILLEGAL_FIELD, "ILLEGAL_FIELD",
              "a field of the instruction holds a value that is not defined, or bits that must be "
              "zero are not; the program is damaged or was made by a faulty compiler"},
    FaultText{NEURON_FAULT_OP_NOT_ALLOWED, "OP_NOT_ALLOWED",
              "the operation is not legal in this instruction; use one that is"},
    FaultText{NEURON_FAULT_OPERAND_RANGE, "OPERAND_RANGE",
              "an access pattern leaves its partition or its PSUM bank; correct base, sizes or "
              "steps"},
    FaultText{NEURON_FAULT_OPERAND_PARTITION, "OPERAND_PARTITION",
              "start partition and partition count of an operand do not go together; move the tile "
              "to a start that its count allows"},
    FaultText{NEURON_FAULT_OPERAND_DTYPE, "OPERAND_DTYPE",
              "a data type is not legal here, types do not go together, or an address is not "
              "aligned to its element; convert the operand first"},
    FaultText{NEURON_FAULT_OPERAND_SPACE, "OPERAND_SPACE",
              "the engine has no port to this memory for this operand; copy the tile to the other "
              "memory first"},
    FaultText{NEURON_FAULT_OPERAND_SHAPE, "OPERAND_SHAPE",
              "the shapes of the operands do not go together; correct sizes or partition counts"},
    FaultText{
        NEURON_FAULT_PSUM_UNDEFINED, "PSUM_UNDEFINED",
        "a matmul accumulates onto PSUM that the PE did not write last; let the first matmul of "
        "the sum overwrite"},
    FaultText{NEURON_FAULT_PSUM_COLLISION, "PSUM_COLLISION",
              "two instructions write the same bytes of PSUM without an order between them; add a "
              "semaphore, or use another bank"},
    FaultText{NEURON_FAULT_WEIGHTS, "WEIGHTS",
              "a matmul runs without loaded weights, or its shape differs from theirs; load "
              "weights of the same partition count first"},
    FaultText{NEURON_FAULT_PC_RANGE, "PC_RANGE",
              "the program counter left the program; end it with a branch, ret or halt"},
    FaultText{NEURON_FAULT_LOOP_DEPTH, "LOOP_DEPTH",
              "more than 8 nested loops or calls, or ret without call; nest less"},
    FaultText{NEURON_FAULT_LOOP_NEST, "LOOP_NEST",
              "loop bodies cross each other; let an inner body end inside the outer one"},
    FaultText{NEURON_FAULT_FETCH, "FETCH",
              "the program cannot be read from memory; check the program base register"},
    FaultText{NEURON_FAULT_CODE_WRITE, "CODE_WRITE",
              "the program was changed while it ran; stop the engine before loading code"},
    FaultText{NEURON_FAULT_DIVIDE, "DIVIDE",
              "a register was divided by zero; test the divisor before"},
    FaultText{NEURON_FAULT_SEM_OVERFLOW, "SEM_OVERFLOW",
              "a semaphore would exceed 2147483647; reset it between executions"},
    FaultText{NEURON_FAULT_SEM_UNDERFLOW, "SEM_UNDERFLOW",
              "a semaphore would fall below 0; wait for the value before subtracting it"},
    FaultText{NEURON_FAULT_EVENT_DOUBLE, "EVENT_DOUBLE",
              "an event was set that is set, or cleared that is clear; alternate them"},
    FaultText{NEURON_FAULT_ABORTED, "ABORTED",
              "the engine was stopped by an abort or by the fault of another engine"},
    FaultText{NEURON_FAULT_DEADLOCK, "DEADLOCK",
              "every engine waits and nothing can advance; compare the waits with the updates of "
              "their semaphores"},
    FaultText{NEURON_FAULT_TIME_LIMIT, "TIME_LIMIT",
              "the execution exceeded its limit of model time; raise the limit or shorten the "
              "program"},
    FaultText{NEURON_FAULT_BUS, "BUS",
              "an access to an unmapped or refused device address; check the address"},
    FaultText{
        NEURON_FAULT_LINK, "LINK",
        "another chip cannot be reached; check that the link is up and the routing id exists"},
    FaultText{NEURON_FAULT_NC_UE, "NC_UE",
              "an uncorrectable parity error in SBUF or PSUM; reset the core"},
    FaultText{
        NEURON_FAULT_HBM_UE, "HBM_UE",
        "an uncorrectable memory error in HBM that a reset does not repair; use another device, "
        "and have the instance replaced"},
    FaultText{NEURON_FAULT_HBM_UE_REPAIRABLE, "HBM_UE_REPAIRABLE",
              "an uncorrectable but repairable memory error in HBM; reset the device to repair it"},
    FaultText{NEURON_FAULT_DMA_DESC, "DMA_DESC",
              "a DMA descriptor is malformed or asks for an operation that does not exist; check "
              "what wrote the ring"},
    FaultText{NEURON_FAULT_DMA_BUS, "DMA_BUS",
              "a DMA descriptor names an unmapped address; check the address in the ring"},
    FaultText{NEURON_FAULT_DMA_OOB, "DMA_OOB",
              "a dynamic DMA transfer left its bounds; check the register it is bound to"},
    FaultText{NEURON_FAULT_DMA_RING, "DMA_RING",
              "a doorbell of a DMA queue that is not set up, or beyond its ring; initialise the "
              "queue before"},
    FaultText{
        NEURON_FAULT_INDEX_OOB, "INDEX_OOB",
        "an index of a gather or scatter, or a position of sparse weights, is out of bounds or "
        "there twice; check the index tile"},
    FaultText{NEURON_FAULT_DMA_ENGINE, "DMA_ENGINE",
              "a DMA engine failed on a descriptor that is right: an error of the hardware; run "
              "again, and use another core or device if it comes back"},
    FaultText{
        NEURON_FAULT_DMA_STREAM, "DMA_STREAM",
        "a DMA descriptor decompresses bytes that are no whole compressed stream of the length "
        "that it expects, or compresses into too small a room; check what wrote the source"},
    FaultText{NEURON_FAULT_NUMERIC_NAN, "NUMERIC_NAN", "warning: an output holds NaN"},
    FaultText{NEURON_FAULT_DOMAIN, "DOMAIN",
              "an input of an activation function is outside its documented range; bring it into "
              "the range first (NEURON_EMULATOR_STRICT=0 makes this a warning)"},
    FaultText{
        NEURON_FAULT_UNINITIALISED, "UNINITIALISED",
        "bytes of SBUF or PSUM are read before anything has written them; let the read wait for "
        "what writes the tile, or read only the part that is written "
        "(NEURON_EMULATOR_STRICT=0 reads what is there)"},
    FaultText{
        NEURON_FAULT_RACE, "RACE",
        "two instructions access the same bytes, at least one to write, and nothing says which "
        "comes first; let the second wait for a semaphore that the first updates "
        "(NEURON_EMULATOR_STRICT=0 does not look)"},
    FaultText{NEURON_FAULT_CUSTOM_OPERATOR, "CUSTOM_OPERATOR",
              "a custom C++ operator did not come to its end; its results have not been written"},
    FaultText{NEURON_FAULT_NQ_OVERFLOW, "NQ_OVERFLOW",
              "the error notification ring is full; read it, or make it larger"},
    FaultText{NEURON_FAULT_CTRL_BUSY, "CTRL_BUSY",
              "warning: a control register was written while the engine runs, and kept its value"},
    FaultText{NEURON_FAULT_CC_TIMEOUT, "CC_TIMEOUT",
              "a collective operation did not progress; check the other ranks"},
    FaultText{NEURON_FAULT_INTERNAL, "INTERNAL",
              "an error of the device model itself; reset the core and report the program"},
};

const FaultText* find(unsigned code) {
  const auto* found = std::find_if(kFaults.begin(), kFaults.end(),
                                   [code](const FaultText& fault) { return fault.code == code; });
  return found == kFaults.end() ? nullptr : found;
}

}  // namespace

const char* fault_name(unsigned code) {
  const FaultText* fault = find(code);
  return fault ? fault->name : "?";
}

const char* fault_text(unsigned code) {
  const FaultText* fault = find(code);
  return fault ? fault->text : "an unknown fault code; driver and device are of different versions";
}

}  // namespace neuron::isa
