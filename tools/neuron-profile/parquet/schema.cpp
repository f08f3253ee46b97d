// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/parquet/schema.h"

#include <sstream>
#include <stdexcept>

namespace neuron::profile::parquet {
namespace {

// Names and types are those of the published schema 7.4.0: NAME[!]:TYPE[/UNIT], ! for a field that
// every row has.
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
     "penguin_id:str raw_penguin_id:i64 bir_id!:str raw_bir_id:i64 "
     "bir_instruction_name:str kernel_instruction_name:str crc_in:i64 crc_out:i64 "
     "evt_wait_time_ns:i64/nanoseconds hlo_attrs:str hlo_name:str raw_hlo_id:i64 "
     "raw_framework_id:i64 layer:str stack_frame_ids:str nki_source_location:str "
     "bir_debug_info_source_location:str dma_trigger_start_ts:i64 dma_trigger_end_ts:i64 "
     "dma_wait_time_ns:i64/nanoseconds instruction_chain:str hbm_read_bytes:i64 "
     "hbm_write_bytes:i64 sbuf_read_bytes:i64 sbuf_write_bytes:i64 spill_save_bytes:i64 "
     "spill_reload_bytes:i64 psum_read_bytes:i64 psum_write_bytes:i64 "
     "psum_read_sbuf_write_bytes:i64 input_queue_bytes:i64 output_queue_bytes:i64 "
     "weight_queue_bytes:i64 performance_mode:str tensor_instruction_type:str "
     "tensor_elements:i64 raw_flops:i64 adjusted_flops:i64 tensor_elements_transpose:i64 "
     "flops_transpose:i64 adjusted_flops_transpose:i64 scalar_activation_fn:str"},
    {"DmaPacketAggregated", "Neighbouring descriptors of one queue of one DMA engine.",
     "start_ts!:i64/nanoseconds end_ts!:i64/nanoseconds duration_ns!:i64/nanoseconds "
     "id!:i64 pcore_idx:i64 block_id!:i32 queue_idx!:i64 queue_name!:str queue_type:str "
     "op!:str variable!:str read_bytes!:i64/bytes write_bytes!:i64/bytes "
     "transfer_bytes!:i64/bytes throughput!:f32/bytes_per_second source!:str dest!:str "
     "semaphore_id!:str modular_flow_function:str read_sbuf_partitions!:str "
     "read_num_sbuf_partitions!:i32 read_shape!:str read_offset!:str read_steps!:str "
     "write_sbuf_partitions!:str write_num_sbuf_partitions!:i32 write_shape!:str "
     "write_offset!:str write_steps!:str is_transpose_mode:bool transpose_element_size:str "
     "transpose_shape:str transpose_from_shape:str transpose_to_shape:str "
     "transpose_unroll_factor:str trigger:i64 completion:i64"},
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
     "dma_active_time_percent:f32/percent static_dma_active_time:f32/seconds "
     "dynamic_dma_active_time_percent:f32/percent "
     "static_dma_active_time_percent:f32/percent dma_transfer_average_bytes:f32/bytes "
     "dma_packet_time:f32/seconds dma_transfer_time:f32/seconds dma_transfer_count:i64 "
     "dma_transfer_total_bytes:i64/bytes dma_queue_count:i64 "
     "inputs_and_weights_size_bytes:i64/bytes inputs_outputs_weights_size_bytes:i64/bytes "
     "weight_size_bytes:i64/bytes static_dma_packet_count:i64 static_dma_size:i64/bytes "
     "dynamic_dma_packet_percent:f32/percent static_dma_packet_percent:f32/percent "
     "dynamic_dma_size_percent:f32/percent static_dma_size_percent:f32/percent "
     "mbu_estimated_percent:f32/percent mbu_min_read_util_percent:f32/percent "
     "hbm_write_bytes:i64/bytes hbm_read_bytes:i64/bytes sbuf_write_bytes:i64/bytes "
     "sbuf_read_bytes:i64/bytes spill_save_bytes:i64/bytes spill_reload_bytes:i64/bytes "
     "psum_write_bytes:i64/bytes psum_read_bytes:i64/bytes psum_read_sbuf_write_count:i64 "
     "psum_read_sbuf_write_bytes:i64/bytes input_queue_bytes:i64/bytes "
     "output_queue_bytes:i64/bytes weight_queue_bytes:i64/bytes "
     "software_dynamic_dma_active_time:f32/seconds "
     "software_dynamic_dma_active_time_percent:f32/percent "
     "software_dynamic_dma_packet_count:i64 software_dynamic_dma_size:i64/bytes "
     "software_dynamic_dma_packet_percent:f32/percent "
     "software_dynamic_dma_size_percent:f32/percent "
     "hardware_dynamic_dma_active_time:f32/seconds "
     "hardware_dynamic_dma_active_time_percent:f32/percent "
     "hardware_dynamic_dma_packet_count:i64 hardware_dynamic_dma_size:i64/bytes "
     "hardware_dynamic_dma_packet_percent:f32/percent "
     "hardware_dynamic_dma_size_percent:f32/percent "
     "tensor_engine_instruction_time:f32/seconds tensor_engine_active_time:f32/seconds "
     "tensor_engine_active_time_percent:f32/percent tensor_engine_instruction_count:i64 "
     "matmul_instruction_count:i64 mfu_estimated_percent:f32/percent "
     "mfu_max_achievable_estimated_percent:f32/percent "
     "mfu_hlo_estimated_percent:f32/percent "
     "mfu_hlo_max_achievable_estimated_percent:f32/percent "
     "mfu_inst_estimated_percent:f32/percent "
     "mfu_inst_max_achievable_estimated_percent:f32/percent "
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
     "runtime_version:str collectives_version:str driver_version:str explorer_version:str "
     "compiler_version:str neuroncore_idx:i64 neuron_device_idx:i64 ultraserver_id:i64 "
     "ultraserver_type:str ultraserver_size:i32 ultraserver_instance_index:i32 "
     "s3_bucket_path:str profile_name:str explorer_build_time:str is_simulation:bool"},
    {"ExecutionInfo", "The execution that the tables are of.",
     "execution_index!:i32 neff_name:str execution_start_ts:i64/nanoseconds "
     "execution_end_ts:i64/nanoseconds num_subgraphs:i32 row_count:i64"},
    {"NeffHeader", "The NEFF that was executed.",
     "network_name:str uuid:str hash:str enabled_features:str header_size:i64/bytes "
     "data_size:i64/bytes major_version:i64 minor_version:i64 package_version:str "
     "build_version:str cc_participant_count:i64 neuroncore_count:i64 "
     "logical_neuroncore_count:i64 pcore_count_per_lnc:i64"},
    {"Warning", "What the profile lacks.", "message!:str category!:str"},
    {"SchemaFields", "The fields of all tables, this one included.",
     "table_name!:str table_description!:str field_name!:str field_description!:str "
     "field_example:str field_type!:str field_required!:bool field_format:str "
     "field_unit:str field_minimum:f32 field_maximum:f32 field_enum_values:str"},
};

struct Meaning {
  const char* field;
  const char* words;
};
// Fields that this program fills; the others are in the tables because the schema has them.
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
    {"block_id", "DMA engine."},
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
};

Field parse(const std::string& word) {
  Field field;
  const size_t colon = word.find(':');
  field.name = word.substr(0, colon);
  field.required = field.name.back() == '!';
  if (field.required) field.name.pop_back();
  std::string type = word.substr(colon + 1);
  if (const size_t slash = type.find('/'); slash != std::string::npos) {
    field.unit = type.substr(slash + 1);
    type.resize(slash);
  }
  field.type = type == "i64"    ? Type::kInt64
               : type == "i32"  ? Type::kInt32
               : type == "f32"  ? Type::kFloat
               : type == "f64"  ? Type::kDouble
               : type == "bool" ? Type::kBoolean
                                : Type::kText;
  field.type_name = type;
  field.description = "Not measured by this runtime.";
  for (const Meaning& meaning : kMeanings) {
    if (field.name == meaning.field) field.description = meaning.words;
  }
  return field;
}

std::vector<Table> read_tables() {
  std::vector<Table> tables;
  for (const TableText& text : kTables) {
    Table table{.name = text.name, .description = text.description, .fields = {}};
    std::istringstream words(text.fields);
    for (std::string word; words >> word;) table.fields.push_back(parse(word));
    tables.push_back(std::move(table));
  }
  // The metrics of a summary explain themselves.
  for (Table& table : tables) {
    if (table.name != "Summary") continue;
    for (Field& field : table.fields) field.description = "Metric; fractions are of 1.";
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
    if (fields[n].name == name) return n;
  }
  throw std::logic_error("no such field");
}

}  // namespace neuron::profile::parquet
