"""Options of Beam's Flink runner that its Python package does not know: its job server does, and is asked too late.

A test holds them to the answer of the real job server.
"""

SWITCH_ON = frozenset(
    {
        "allow_non_restored_state",
        "auto_balance_write_files_sharding_enabled",
        "disable_metrics",
        "enable_heap_dumps",
        "enable_stable_input_drain",
        "externalized_checkpoints_enabled",
        "faster_copy",
        "finish_bundle_before_checkpointing",
        "force_unaligned_checkpoint_enabled",
        "gcs_performance_metrics",
        "load_balance_bundles",
        "object_reuse",
        "re_iterable_group_by_key_result",
        "retain_docker_containers",
        "retain_externalized_checkpoints_on_cancellation",
        "unaligned_checkpoint_enabled",
        "use_data_stream_for_batch",
    }
)
"""Flags that are off: giving one turns it on."""
SWITCH_OFF = frozenset(
    {
        "attached_mode",
        "enable_log_via_fn_api",
        "fail_on_checkpointing_errors",
        "force_slot_sharing_group",
        "gzip_compress_heap_dumps",
        "log_mdc",
        "operator_chaining",
    }
)
"""Flags that are on: giving one turns it off."""
WITH_VALUE = frozenset(
    {
        "app_name",
        "auto_watermark_interval",
        "avro_serializable_classes",
        "bundle_processor_cache_timeout",
        "checkpoint_timeout_millis",
        "checkpointing_interval",
        "checkpointing_mode",
        "credential_factory_class",
        "default_environment_config",
        "default_environment_type",
        "environment_expiration_millis",
        "execution_mode_for_batch",
        "execution_retry_delay",
        "executor_service",
        "file_input_split_max_size_m_b",
        "flink_conf_dir",
        "g_c_thrashing_percentage_per_period",
        "gcp_credential",
        "gcp_temp_location",
        "gcs_endpoint",
        "gcs_http_request_read_timeout",
        "gcs_http_request_write_timeout",
        "gcs_read_counter_prefix",
        "gcs_rewrite_data_op_batch_limit",
        "gcs_upload_buffer_size_bytes",
        "gcs_util",
        "gcs_write_counter_prefix",
        "google_api_trace",
        "google_cloud_storage_read_options",
        "grouping_table_max_size_mb",
        "jdk_add_open_modules",
        "jdk_add_root_modules",
        "job_check_interval_in_secs",
        "latency_tracking_interval",
        "max_bundle_size",
        "max_bundle_time_mills",
        "max_cache_memory_usage_mb_class",
        "max_cache_memory_usage_percent",
        "min_pause_between_checkpoints",
        "num_concurrent_checkpoints",
        "number_of_execution_retries",
        "open_telemetry",
        "open_telemetry_properties",
        "options_id",
        "path_validator",
        "path_validator_class",
        "remote_heap_dump_location",
        "report_checkpoint_duration",
        "savepoint_path",
        "semi_persist_dir",
        "shutdown_sources_after_idle_ms",
        "stable_unique_names",
        "state_backend",
        "state_backend_factory",
        "state_backend_storage_path",
        "transform_service_address",
        "transform_service_beam_version",
        "transforms_to_override",
    }
)
"""Options that take a value."""
