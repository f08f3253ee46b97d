// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/parquet/schema.h"

#include <sstream>
#include <stdexcept>

namespace neuron::profile::parquet {
namespace {

// Names and types are those of the published schema 7.4.0: NAME[!][?]:TYPE[/UNIT], ! for a field
// that every row has, ? for one that nothing of an emulated core says.
struct TableText {
  const char* name;
  const char* description;
  const char* fields;
};
constexpr TableText kTables[] = {
    {"Instruction", "One executed instruction of an engine.",
     "start_ts!:i64/nanoseconds end_ts!:i64/nanoseconds duration_ns!:i64/nanoseconds "
     "engine!:str timeline_track:str pcore_idx:i64 opcode!:str operands!:str "
     "compiler_opcode:str compiler_operands:str id!:i64 pc!:i64 compiler_pc:i64 "
     "penguin_id?:str raw_penguin_id?:i64 bir_id!?:str raw_bir_id?:i64 "
     "bir_instruction_name?:str kernel_instruction_name:str crc_in?:i64 crc_out?:i64 "
     "evt_wait_time_ns:i64/nanoseconds hlo_attrs?:str hlo_name?:str raw_hlo_id?:i64 "
     "raw_framework_id?:i64 layer?:str stack_frame_ids:str nki_source_location:str "
     "bir_debug_info_source_location?:str dma_trigger_start_ts?:i64 dma_trigger_end_ts?:i64 "
     "dma_wait_time_ns?:i64/nanoseconds instruction_chain?:str hbm_read_bytes?:i64 "
     "hbm_write_bytes?:i64 sbuf_read_bytes:i64 sbuf_write_bytes:i64 spill_save_bytes?:i64 "
     "spill_reload_bytes?:i64 psum_read_bytes:i64 psum_write_bytes:i64 "
     "psum_read_sbuf_write_bytes:i64 input_queue_bytes?:i64 output_queue_bytes?:i64 "
     "weight_queue_bytes?:i64 performance_mode:str tensor_instruction_type:str "
     "tensor_elements:i64 raw_flops:i64 adjusted_flops:i64 tensor_elements_transpose:i64 "
     "flops_transpose:i64 adjusted_flops_transpose:i64 scalar_activation_fn:str"},
    {"DmaPacketAggregated", "Neighbouring descriptors of one queue of one DMA engine.",
     "start_ts!:i64/nanoseconds end_ts!:i64/nanoseconds duration_ns!:i64/nanoseconds "
     "id!:i64 pcore_idx:i64 block_id!:i32 queue_idx!:i64 queue_name!:str queue_type:str "
     "op!:str variable!:str read_bytes!:i64/bytes write_bytes!:i64/bytes "
     "transfer_bytes!:i64/bytes throughput!:f32/bytes_per_second source!:str dest!:str "
     "semaphore_id!:str modular_flow_function?:str read_sbuf_partitions!:str "
     "read_num_sbuf_partitions!:i32 read_shape!:str read_offset!:str read_steps!:str "
     "write_sbuf_partitions!:str write_num_sbuf_partitions!:i32 write_shape!:str "
     "write_offset!:str write_steps!:str is_transpose_mode?:bool transpose_element_size?:str "
     "transpose_shape?:str transpose_from_shape?:str transpose_to_shape?:str "
     "transpose_unroll_factor?:str trigger:i64 completion:i64"},
    {"CcOp", "A collective, from its go to its end on this rank.",
     "start_ts!:i64/nanoseconds end_ts!:i64/nanoseconds duration_ns!:i64/nanoseconds "
     "operation!:str algorithm!:str num_elements!:i64 dtype!:str op_id!:i64 stream_id!:i64 "
     "stream_index!:i64 trigger_engine!:str input_size:i64/bytes output_size:i64/bytes "
     "algorithm_bandwidth:f32/bytes_per_second bus_bandwidth:f32/bytes_per_second "
     "trigger_start_ts:i64/nanoseconds cc_trigger_start_delay:i64/nanoseconds "
     "replica_group_id:i64 replica_group:str"},
    {"CcInstruction", "One executed instruction of a collective core.",
     "start_ts!:i64/nanoseconds end_ts!:i64/nanoseconds duration_ns!:i64/nanoseconds "
     "core_idx!:i64 description!:str trigger_engine:str trigger_start_ts:i64/nanoseconds"},
    {"CcStream", "A sequence of collectives, and the collective cores that execute it.",
     "stream_id!:i64 stream_index!:i64 cc_core_ids!:str"},
    {"SemaphoreUpdate", "A change of a semaphore or event.",
     "timestamp!:i64/nanoseconds id!:str value!:i32 update_source:str "
     "double_set_or_clear:bool update_mode:i32 update_operation_type:str "
     "update_trigger_timing:str pcore_idx:i64"},
    {"OpcodeSummary", "Time by engine and opcode.",
     "engine!:str opcode!:str instruction_count!:i64 instruction_time_ns!:i64/nanoseconds "
     "active_time_ns!:i64/nanoseconds active_time_percent!:f32"},
    {"Summary", "Metrics of the execution, one row.",
     "total_time:f32/seconds neuroncore_cycle_count:i64/cycles model_flops:i64/flops "
     "hardware_flops:i64/flops transpose_flops:i64/flops adjusted_hardware_flops:i64/flops "
     "adjusted_transpose_flops:i64/flops mm_arithmetic_intensity:f32 "
     "peak_flops_bandwidth_ratio:f32 trace_count:i64 event_count:i64 total_row_count:i64 "
     "dma_active_cycles:i64/cycles dma_active_time:f32/seconds "
     "dma_active_time_percent:f32/percent static_dma_active_time?:f32/seconds "
     "dynamic_dma_active_time_percent?:f32/percent "
     "static_dma_active_time_percent?:f32/percent dma_transfer_average_bytes:f32/bytes "
     "dma_packet_time:f32/seconds dma_transfer_time:f32/seconds dma_transfer_count:i64 "
     "dma_transfer_total_bytes:i64/bytes dma_queue_count:i64 "
     "inputs_and_weights_size_bytes:i64/bytes inputs_outputs_weights_size_bytes:i64/bytes "
     "weight_size_bytes:i64/bytes static_dma_packet_count:i64 static_dma_size:i64/bytes "
     "dynamic_dma_packet_percent:f32/percent static_dma_packet_percent:f32/percent "
     "dynamic_dma_size_percent:f32/percent static_dma_size_percent:f32/percent "
     "mbu_estimated_percent:f32/percent mbu_min_read_util_percent:f32/percent "
     "hbm_write_bytes:i64/bytes hbm_read_bytes:i64/bytes sbuf_write_bytes:i64/bytes "
     "sbuf_read_bytes:i64/bytes spill_save_bytes?:i64/bytes spill_reload_bytes?:i64/bytes "
     "psum_write_bytes:i64/bytes psum_read_bytes:i64/bytes psum_read_sbuf_write_count:i64 "
     "psum_read_sbuf_write_bytes:i64/bytes input_queue_bytes?:i64/bytes "
     "output_queue_bytes?:i64/bytes weight_queue_bytes?:i64/bytes "
     "software_dynamic_dma_active_time?:f32/seconds "
     "software_dynamic_dma_active_time_percent?:f32/percent "
     "software_dynamic_dma_packet_count:i64 software_dynamic_dma_size:i64/bytes "
     "software_dynamic_dma_packet_percent?:f32/percent "
     "software_dynamic_dma_size_percent?:f32/percent "
     "hardware_dynamic_dma_active_time?:f32/seconds "
     "hardware_dynamic_dma_active_time_percent?:f32/percent "
     "hardware_dynamic_dma_packet_count?:i64 hardware_dynamic_dma_size?:i64/bytes "
     "hardware_dynamic_dma_packet_percent?:f32/percent "
     "hardware_dynamic_dma_size_percent?:f32/percent "
     "tensor_engine_instruction_time:f32/seconds tensor_engine_active_time:f32/seconds "
     "tensor_engine_active_time_percent:f32/percent tensor_engine_instruction_count:i64 "
     "matmul_instruction_count:i64 mfu_estimated_percent:f32/percent "
     "mfu_max_achievable_estimated_percent?:f32/percent "
     "mfu_hlo_estimated_percent?:f32/percent "
     "mfu_hlo_max_achievable_estimated_percent?:f32/percent "
     "mfu_inst_estimated_percent?:f32/percent "
     "mfu_inst_max_achievable_estimated_percent?:f32/percent "
     "hfu_estimated_percent:f32/percent vector_engine_instruction_time:f32/seconds "
     "vector_engine_active_time:f32/seconds vector_engine_active_time_percent:f32/percent "
     "vector_engine_instruction_count:i64 scalar_engine_instruction_time:f32/seconds "
     "scalar_engine_active_time:f32/seconds scalar_engine_active_time_percent:f32/percent "
     "scalar_engine_instruction_count:i64 activate_instruction_time:f32/seconds "
     "activate_instruction_count:i64 sync_engine_instruction_time:f32/seconds "
     "sync_engine_active_time:f32/seconds sync_engine_active_time_percent:f32/percent "
     "sync_engine_instruction_count:i64 gpsimd_engine_instruction_time:f32/seconds "
     "gpsimd_engine_active_time:f32/seconds gpsimd_engine_active_time_percent:f32/percent "
     "gpsimd_engine_instruction_count:i64 cc_op_time:f32/seconds "
     "cc_op_active_time:f32/seconds cc_op_active_time_percent:f32/percent cc_op_count:i64 "
     "cc_cores_instruction_time:f32/seconds cc_cores_instruction_active_time:f32/seconds "
     "cc_cores_instruction_active_time_percent:f32/percent cc_cores_instruction_count:i64 "
     "total_exec_time:f32/seconds total_active_time:f32/seconds "
     "total_active_time_percent:f32/percent"},
    {"Metadata", "What was profiled, by what, one row.",
     "profile_schema_version!:str ntff_version!:i32 num_physical_cores!:i32 "
     "vnc_enabled!:bool first_hw_timestamp!:i64/nanoseconds "
     "last_hw_timestamp!:i64/nanoseconds first_ts!:str last_ts!:str "
     "dma_ddr_bandwidth!:f32/bytes_per_second num_dma_engines_per_neuroncore!:i32 "
     "hbm_ddr_bandwidth!:f32/bytes_per_second tensor_engine_num_rows!:i64 "
     "tensor_engine_num_cols!:i64 tensor_engine_clock_freq!:f32/gigahertz "
     "vector_engine_clock_freq!:f32/gigahertz vector_engine_num_channels!:i64 "
     "scalar_engine_clock_freq!:f32/gigahertz scalar_engine_num_channels!:i64 "
     "gpsimd_engine_clock_freq!:f32/gigahertz gpsimd_engine_num_channels!:i64 "
     "neuroncore_clock_freq!:f32/gigahertz ticks_per_nanosec!:i64 instance_type:str "
     "runtime_version:str collectives_version?:str driver_version?:str explorer_version?:str "
     "compiler_version?:str neuroncore_idx:i64 neuron_device_idx:i64 ultraserver_id?:i64 "
     "ultraserver_type?:str ultraserver_size?:i32 ultraserver_instance_index?:i32 "
     "s3_bucket_path?:str profile_name:str explorer_build_time?:str is_simulation:bool"},
    {"ExecutionInfo", "The execution that the tables are of.",
     "execution_index!:i32 neff_name:str execution_start_ts:i64/nanoseconds "
     "execution_end_ts:i64/nanoseconds num_subgraphs:i32 row_count:i64"},
    {"NeffHeader", "The NEFF that was executed.",
     "network_name:str uuid:str hash:str enabled_features?:str header_size:i64/bytes "
     "data_size:i64/bytes major_version:i64 minor_version:i64 package_version:str "
     "build_version:str cc_participant_count?:i64 neuroncore_count:i64 "
     "logical_neuroncore_count:i64 pcore_count_per_lnc:i64"},
    {"ActiveTime", "A time in which an engine does something: its instructions, joined.",
     "start_ts!:i64/nanoseconds end_ts!:i64/nanoseconds engine!:str pcore_idx!:i64 "
     "duration_ns!:i64/nanoseconds"},
    {"AssemblyInstruction", "The instruction of the NEFF behind one executed instruction.",
     "instruction_id!:i64 compiler_opcode!:str compiler_operands!:str compiler_pc!:i64"},
    {"CoreBarriers", "A meeting of an engine with that of the other physical core.",
     "start_ts!:i64/nanoseconds end_ts!:i64/nanoseconds duration_ns!:i64/nanoseconds "
     "engine_name!:str id!:i64 semaphore!:i64 compiler_pc!:i64 compiler_opcode!:str "
     "compiler_operands!:str pcore_idx:i64"},
    {"DmaPacket", "One packet of descriptors of a transfer.",
     "start_ts!:i64/nanoseconds end_ts!:i64/nanoseconds duration_ns!:i64/nanoseconds "
     "pcore_idx:i64 id!:i64 packet_idx!:i32 packet_aggregation_id!:i64 engine_idx:i64 "
     "read_bytes!:i64/bytes write_bytes!:i64/bytes transfer_bytes!:i64/bytes "
     "throughput!:f32/bytes_per_second queue_type!:str variable:str queue_name:str "
     "queue_idx:i64 crc!?:i64"},
    {"DmaQueuesInfo", "A queue on one DMA engine.",
     "name!:str type!:str pcore_idx!:i64 idx!:i64 engine_idx!:i64 axi_port!?:i64 "
     "dram_channel!?:i64"},
    {"DmaUsage", "Bytes that DMA moves, at equal distances in time.",
     "timestamp!:i64/nanoseconds current_throughput!:f32/bytes_per_second "
     "total_transfer_bytes!:i64/bytes pcore_idx:i64"},
    {"DmaUsageSummary", "DmaUsage, several rows together.",
     "timestamp!:i64/nanoseconds pcore_idx!:i64 sum_current_throughput!:f64 "
     "sum_total_transfer_bytes!:i64 max_total_transfer_bytes!:i64 count!:i64 "
     "bucket_resolution_ns!:i64/nanoseconds"},
    {"Flow", "What an instruction or a transfer had to wait for.",
     "in_id!:i64 out_id!:i64 in_table!:str out_table!:str dependency_type:str "
     "gap_time:i64/nanoseconds"},
    {"HbmUsage", "Bytes that DMA reads and writes in HBM, at equal distances in time.",
     "timestamp!:i64/nanoseconds current_throughput!:f32/bytes_per_second "
     "total_transfer_bytes!:i64/bytes pcore_idx:i64"},
    {"HbmUsageSummaryByType", "Memory of the program in HBM.",
     "neuron_device_idx!:i64 neuroncore_idx!:i64 usage_type!:str usage_bytes!:i64/bytes"},
    {"KernelInstructions", "An instruction of a kernel in Python, and its line.",
     "kernel_instruction_name!:str stack_frame_id:i64 stack_frame_depth:i64 "
     "iteration_variables_id?:i64 iteration_variable_depth?:i64 pcore_idx:i64 file_path:str "
     "line_number:i64"},
    {"KernelStackFrames", "A function of a kernel.",
     "stack_frame_id!:i64 fully_qualified_function_name:str parent_stack_frame_id?:i64 "
     "pcore_idx:i64 file_path:str line_number:i64"},
    {"PendingDma", "Transfers that were started and have not ended, at equal distances in time.",
     "timestamp!:i64/nanoseconds value!:i32 pcore_idx:i64"},
    {"PsumUsage", "How full PSUM is, at equal distances in time.",
     "timestamp!:i64/nanoseconds avg_util_percent:f32/percent "
     "bank_0_util_percent:f32/percent bank_1_util_percent:f32/percent "
     "bank_2_util_percent:f32/percent bank_3_util_percent:f32/percent "
     "bank_4_util_percent:f32/percent bank_5_util_percent:f32/percent "
     "bank_6_util_percent:f32/percent bank_7_util_percent:f32/percent pcore_idx:i64"},
    {"SbufAllocation", "A time in which bytes of a partition of SBUF hold what somebody reads.",
     "start_ts!:i64/nanoseconds end_ts!:i64/nanoseconds start_address!:i64/bytes "
     "end_address!:i64/bytes partition!:i64 op_source_type:str opcode:str operands:str "
     "queue_name:str block_id:i64 tensor_name:str hlo_name?:str pcore_idx:i64"},
    {"SbufUsage", "How full SBUF is, at equal distances in time.",
     "timestamp!:i64/nanoseconds avg_util_percent:f32/percent "
     "partition_0_util_percent:f32/percent partition_32_util_percent:f32/percent "
     "partition_64_util_percent:f32/percent partition_96_util_percent:f32/percent "
     "pcore_idx:i64"},
    {"StackFrame", "A place in the source that instructions come from.",
     "id!:str file_location_id!:i32 parent_frame_id!:str"},
    {"StackFrameFileLocation", "A line of a file.",
     "id!:str file_name_id!:i32 function_name_id!:i32 line_number!:i32"},
    {"StackFrameFileName", "A file of the source.", "id!:str name!:str"},
    {"StackFrameFunctionName", "A function of the source.", "id!:str name!:str"},
    {"TensorInfo", "An input, an output or a weight.",
     "variable_name:str type:str format:str shape:str size:i64/bytes node?:i64 pcore_idx:i64 "
     "load_to_sbuf_avg_size_bytes:i64 load_to_sbuf_total_size_bytes:i64 "
     "load_to_sbuf_dma_count:i64 load_to_sbuf_repeat_factor:f32"},
    {"CpuUsage", "How busy a processor of the host was.",
     "timestamp!:i64/nanoseconds util_percent!:f32/percent cpu_id!:str instance_id!:str "
     "ultraserver_id?:i64 ultraserver_instance_index?:i64"},
    {"DeviceProfileList", "A device profile of the session.",
     "device_profile_name!:str instance_id!:str process_id!:i64 nc_id!:i64 session_id:i64 "
     "model_id:i64"},
    {"HostMemUsage", "Memory of the host that was used.",
     "timestamp!:i64/nanoseconds used_bytes!:i64/bytes used_percent!:f32/percent "
     "instance_id!:str ultraserver_id?:i64 ultraserver_instance_index?:i64"},
    {"SystemProfileEvents", "A call or an execution of the session.",
     "id!:i64 name!:str start_ts!:i64/nanoseconds end_ts!:i64/nanoseconds "
     "duration_ns!:i64/nanoseconds trace_event_source!:str instance_id!:str process_id!:i64 "
     "thread_id!:i64 nc_idx:i64 pcore_idx?:i64 worker_gid?:i64 flow_id:str[] "
     "framework_stream_id?:str extra_attributes_json:str"},
    {"SystemProfileMetadata", "The session, one row.",
     "first_ts!:str last_ts!:str first_ts_ns!:str last_ts_ns!:str ntff_version!:i64 "
     "hbm_capacity_bytes!:i64/bytes"},
    {"Warning", "What the profile lacks.", "message!:str category!:str"},
    {"SchemaFields", "The fields of all tables, this one included.",
     "table_name!:str table_description!:str field_name!:str field_description!:str "
     "field_example?:str field_type!:str field_required!:bool field_format?:str "
     "field_unit:str field_minimum?:f32 field_maximum?:f32 field_enum_values?:str"},
};

struct Meaning {
  const char* field;
  const char* words;
};
// Of fields that this program fills and whose name does not say everything.
constexpr Meaning kMeanings[] = {
    {"start_ts", "Beginning, from the beginning of the program's first instruction."},
    {"end_ts", "End, on the same clock."},
    {"duration_ns", "From the beginning to the end."},
    {"timestamp", "From the beginning of the program's first instruction."},
    {"engine", "Tensor, Vector, Scalar, GpSimd or Sync."},
    {"opcode", "Kind of the instruction."},
    {"operands", "The instruction as the disassembler writes it."},
    {"pc", "Place among the engine's instructions, as the NEFF counts them."},
    {"id", "Number of the row, or of the semaphore."},
    {"evt_wait_time_ns", "How long the engine waited in front of the instruction."},
    {"nki_source_location", "FILE:LINE of the kernel."},
    {"tensor_elements", "Elements of each partition."},
    {"pcore_idx", "Physical core of the virtual one."},
    {"timeline_track", "Row of a picture that the instruction belongs to."},
    {"queue_idx", "Number of the queue."},
    {"queue_name", "Number and name of the queue."},
    {"queue_type", "software_dynamic: an engine makes the descriptors; data: the runtime did."},
    {"transfer_bytes", "Bytes that were moved."},
    {"read_bytes", "Bytes that were read."},
    {"write_bytes", "Bytes that were written."},
    {"throughput", "Bytes a second."},
    {"source", "What was read: hbm, sbuf, host, peer."},
    {"dest", "What was written."},
    {"op", "The instruction that started it."},
    {"block_id", "Block of transfers, as the program numbers it."},
    {"value", "Value after the change."},
    {"update_source", "The engine, DMA queue or host that changed it."},
    {"operation", "all_reduce, all_gather, ..."},
    {"algorithm", "How the ranks share the work: ring, mesh, ..."},
    {"num_elements", "As the operation counts them."},
    {"dtype", "Type of the elements."},
    {"op_id", "Number of the collective in its stream."},
    {"stream_id", "Number of the sequence of collectives."},
    {"stream_index", "The same: a core has no others."},
    {"cc_core_ids", "The collective core that executes it."},
    {"core_idx", "Collective core of the core."},
    {"description", "The same in words."},
    {"trigger_engine", "The engine whose instruction began the collective."},
    {"trigger_start_ts", "Beginning of that instruction."},
    {"cc_trigger_start_delay", "From there to the beginning of the collective."},
    {"input_size", "Bytes of this rank's input."},
    {"output_size", "Bytes of this rank's output."},
    {"algorithm_bandwidth", "Bytes of the operation, by the duration on this rank."},
    {"bus_bandwidth", "The same, times what each rank must send of a byte."},
    {"replica_group_id", "Number of the group among those of the model."},
    {"replica_group", "Ranks of the group."},
    {"update_operation_type", "What an instruction asked for."},
    {"update_trigger_timing", "Whether when it has read its inputs, or at its end."},
    {"update_mode", "The operation as a number."},
    {"double_set_or_clear", "An event that was so already."},
    {"compiler_opcode", "As in the NEFF."},
    {"compiler_operands", "As in the NEFF."},
    {"compiler_pc", "Place in the NEFF's program of the engine."},
    {"instruction_id", "Row of Instruction."},
    {"kernel_instruction_name", "Engine and place, of a kernel in Python."},
    {"stack_frame_ids", "Rows of StackFrame."},
    {"sbuf_read_bytes", "Bytes that were read in SBUF."},
    {"sbuf_write_bytes", "Bytes that were written in SBUF."},
    {"psum_read_bytes", "Bytes that were read in PSUM."},
    {"psum_write_bytes", "Bytes that were written in PSUM."},
    {"psum_read_sbuf_write_bytes", "Bytes that were read in PSUM for a result in SBUF."},
    {"performance_mode", "2x or 4x: how many times as fast because of its types."},
    {"tensor_instruction_type", "REGULAR or TRANSPOSE."},
    {"raw_flops", "Multiplications and additions."},
    {"adjusted_flops", "The same, as many of bf16 as would take that long."},
    {"flops_transpose", "Those that only move elements."},
    {"adjusted_flops_transpose", "The same, as many of bf16 as would take that long."},
    {"tensor_elements_transpose", "Elements of each partition, of a transposition."},
    {"scalar_activation_fn", "Function of an activation."},
    {"semaphore", "Where the cores meet."},
    {"engine_name", "Tensor, Vector, Scalar, GpSimd or Sync."},
    {"packet_idx", "Place in the transfer."},
    {"packet_aggregation_id", "Row of DmaPacketAggregated."},
    {"engine_idx", "DMA engine."},
    {"variable", "What is moved: a variable of the NEFF, or a collective."},
    {"semaphore_id", "What the transfer has changed at its end; -1: nothing."},
    {"trigger", "Beginning of the instruction that started it."},
    {"completion", "End of the instruction that started it."},
    {"read_shape", "Pieces that are read, and bytes of each."},
    {"read_offset", "Where the first lies in its variable."},
    {"read_steps", "Bytes from one to the next."},
    {"read_sbuf_partitions", "Partitions of SBUF that are read."},
    {"read_num_sbuf_partitions", "How many these are."},
    {"write_shape", "Pieces that are written, and bytes of each."},
    {"write_offset", "Where the first lies in its variable."},
    {"write_steps", "Bytes from one to the next."},
    {"write_sbuf_partitions", "Partitions of SBUF that are written."},
    {"write_num_sbuf_partitions", "How many these are."},
    {"in_id", "Row of what was first."},
    {"out_id", "Row of what waited for it."},
    {"in_table", "Table of that row."},
    {"out_table", "Table of that row."},
    {"dependency_type", "trigger, semaphore, or transfers: an engine waited for its own."},
    {"gap_time", "From the end of the one to the beginning of the other."},
    {"current_throughput", "Since the row before, bytes a second."},
    {"total_transfer_bytes", "Up to this time."},
    {"sum_current_throughput", "Of the rows that this one stands for."},
    {"sum_total_transfer_bytes", "Of the rows that this one stands for."},
    {"max_total_transfer_bytes", "Of the rows that this one stands for."},
    {"count", "How many rows this one stands for."},
    {"bucket_resolution_ns", "From this row to the next."},
    {"avg_util_percent", "Average of the others; a fraction of 1."},
    {"start_address", "First byte in the partition."},
    {"end_address", "Last byte in the partition."},
    {"partition", "0, 32, 64 or 96: those that are looked at."},
    {"op_source_type", "Who wrote: instruction or dma."},
    {"tensor_name", "Tile or variable."},
    {"usage_type", "What the memory is for."},
    {"usage_bytes", "How much it is."},
    {"name", "Name."},
    {"type", "What it is: of a tensor IN, OUT or WEIGHT."},
    {"shape", "Sizes of the dimensions."},
    {"size", "Bytes."},
    {"format", "Letters of the dimensions."},
    {"variable_name", "Name of the tensor."},
    {"file_path", "File of the source."},
    {"line_number", "Line of the file."},
    {"util_percent", "How busy it was since the sample before; a fraction of 1."},
    {"cpu_id", "Number of the processor, or average."},
    {"used_bytes", "Memory that was used."},
    {"used_percent", "The same as a fraction of 1."},
    {"instance_id", "Type of the instance."},
    {"process_id", "Process."},
    {"thread_id", "Thread."},
    {"nc_idx", "Virtual core."},
    {"flow_id", "Number of the execution that it belongs to."},
    {"trace_event_source", "neuron_rt: the runtime; neuron_hw: a core."},
    {"extra_attributes_json", "What else the event says."},
    {"hbm_capacity_bytes", "A core's share of the device's memory."},
    {"first_ts", "Beginning, on the clock of the host."},
    {"last_ts", "End, on the clock of the host."},
    {"first_hw_timestamp", "0: times count from the program's first instruction."},
    {"last_hw_timestamp", "End of the last event, from the program's first instruction."},
    {"dma_ddr_bandwidth", "Of all DMA engines of a core together."},
    {"hbm_ddr_bandwidth", "A core's share of the memory's."},
    {"ticks_per_nanosec", "Of the clock of the device's time stamps."},
    {"num_physical_cores", "Physical cores of the virtual one."},
    {"is_simulation", "True: no chip has executed it."},
    {"execution_index", "Among those that the file holds, from 0."},
    {"load_to_sbuf_repeat_factor", "How many times its bytes were brought into SBUF."},
    {"category", "What kind of events is missing."},
};

Field parse(const std::string& word) {
  Field field;
  const size_t colon = word.find(':');
  field.name = word.substr(0, colon);
  field.measured = field.name.back() != '?';
  if (!field.measured) field.name.pop_back();
  field.required = field.name.back() == '!';
  if (field.required) field.name.pop_back();
  std::string type = word.substr(colon + 1);
  if (const size_t slash = type.find('/'); slash != std::string::npos) {
    field.unit = type.substr(slash + 1);
    type.resize(slash);
  }
  field.type = type == "i64"     ? Type::kInt64
               : type == "i32"   ? Type::kInt32
               : type == "f32"   ? Type::kFloat
               : type == "f64"   ? Type::kDouble
               : type == "bool"  ? Type::kBoolean
               : type == "str[]" ? Type::kTexts
                                 : Type::kText;
  field.type_name = field.type == Type::kTexts ? "array of str" : type;
  return field;
}

// The metrics of a summary explain themselves.
std::string describe(const Table& table, const Field& field) {
  if (!field.measured) {
    return field.required ? "Not measured by this runtime: 0, or no text."
                          : "Not measured by this runtime: null.";
  }
  if (table.name == "Summary") return "Metric; fractions are of 1.";
  for (const Meaning& meaning : kMeanings) {
    if (field.name == meaning.field) return meaning.words;
  }
  return "As the name says.";
}

std::vector<Table> read_tables() {
  std::vector<Table> tables;
  for (const TableText& text : kTables) {
    Table table{.name = text.name, .description = text.description, .fields = {}};
    std::istringstream words(text.fields);
    for (std::string word; words >> word;) {
      table.fields.push_back(parse(word));
      table.fields.back().description = describe(table, table.fields.back());
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace

const std::vector<Table>& tables() {
  static const std::vector<Table> list = read_tables();
  return list;
}

const Table& table(std::string_view name) {
  for (const Table& one : tables()) {
    if (one.name == name) return one;
  }
  throw std::logic_error("no such table");
}

size_t Table::field(std::string_view name) const {
  for (size_t n = 0; n < fields.size(); ++n) {
    if (fields[n].name != name) continue;
    if (!fields[n].measured) throw std::logic_error("a field that the schema says is not measured");
    return n;
  }
  throw std::logic_error("no such field");
}

}  // namespace neuron::profile::parquet
