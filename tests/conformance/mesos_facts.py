"""The facts of Mesos that master and agent are built to, one a line: which test shows it, or why none does.

Each line: number, what Mesos does, and after `|` either tests (`room/module::name`, the room being a folder below tests,
without `test_`) or, after `none:`, the reason. Numbers go through each section without gaps. `test_facts.py` checks
that the tests exist.
"""

SCHEDULER_API = """
1.1 JSON and protobuf by Content-Type | master/api/scheduler_api::a_protobuf_scheduler_is_served_in_protobuf
1.2 bytes are base64, enums text, unknown fields ignored | mesos/messages::unknown_fields_are_ignored_as_in_mesos mesos/leniency::calls_are_taken_as_they_were_meant
1.3 a record is its length in bytes, a line feed, itself | mesos/framing::recordio_yields_the_same_records_for_any_splitting
1.4 SUBSCRIBE is 200, chunked, with Mesos-Stream-Id | master/api/scheduler_api::headers_of_a_subscription
1.5 other calls are 202 without a body | master/api/scheduler_api::calls_are_answered_202_with_the_recorded_headers
1.6 UPDATE_FRAMEWORK is 200 or 400 | master/api/scheduler_api::updating_a_framework_is_answered_200_or_400
1.7 calls of one connection are taken in order | master/api/bad_clients::a_flood_on_one_connection_does_not_hold_up_others
2.1 a principal with claims but no value is 403 | none: only executors have claims, and a master asks for names and secrets
2.2 a master that does not lead redirects (307) or has nobody to redirect to (503) | master/leadership::the_second_stands_by_and_goes_on_when_the_first_ends master/leadership::without_a_leader_a_request_waits_a_little_and_is_refused
2.3 another method than POST is 405, no or another Content-Type 400 and 415 | master/api/scheduler_api::bad_calls_are_refused_as_recorded
2.4 what cannot be read is 400 | master/api/scheduler_api::a_body_that_is_not_protobuf_or_of_the_wrong_types_is_refused master/api/bad_clients::nonsense_is_answered_400_and_the_connection_lives
2.5 a call without its parts is 400 | master/validation/calls::a_call_has_its_framework_and_its_body master/validation/calls::an_acknowledged_uuid_has_sixteen_bytes
2.6 an Accept that allows neither is 406; a stream id with SUBSCRIBE is 400 | master/api/scheduler_api::subscriptions_are_answered_as_recorded
2.7 an unknown framework is 400 | master/api/scheduler_api::after_teardown_there_is_no_framework
2.8 one that is not subscribed is 403 | master/api/scheduler_api::a_call_of_a_framework_that_is_away_is_forbidden
2.9 no or a wrong stream id is 400 | master/api/scheduler_api::a_wrong_or_missing_stream_id_is_refused_as_recorded
2.10 authentication of schedulers is 401, and their principal is who they are | master/api/access::a_framework_is_who_it_has_shown_to_be master/api/access::a_plain_pymesos_framework_shows_who_it_is
3.1 the FrameworkInfo of a subscription | master/decisions/subscriptions::a_new_framework_is_welcomed_as_recorded master/decisions/subscriptions::ids_count_up
3.2 refusals are an ERROR event on a 200, then the end | master/decisions/subscriptions::a_refused_framework_hears_why_and_its_stream_ends master/validation/calls::frameworks_are_refused_in_mesos_words
3.3 roles outside --roles are refused | master/decisions/subscriptions::only_listed_roles_may_subscribe
3.4 a removed framework cannot come back | master/decisions/subscriptions::a_removed_framework_cannot_come_back
3.5 an unknown id is taken as after a failover of the master | master/decisions/subscriptions::an_unknown_id_is_taken_as_after_a_restart_of_the_master
3.6 the newest subscription wins and the old stream hears ERROR | master/decisions/subscriptions::the_newest_subscription_wins master/api/scheduler_api::the_newest_subscription_takes_over
3.7 user and checkpoint stay, another principal is an error | master/decisions/subscriptions::user_and_checkpoint_stay_and_another_principal_is_refused
3.8 agents are told, and send what waits at once | agent/model/updates::only_one_framework_is_resent_when_its_scheduler_comes_back agent/decisions/state::a_scheduler_that_came_back_gets_its_outstanding_updates_again
3.9 SUBSCRIBED first, HEARTBEAT straight after it | conformance/mesos_master_sessions::a_frameworks_whole_life_is_told_as_a_real_master_told_it
4.1 a stream that closes takes offers back, tasks run on | master/api/scheduler_api::a_scheduler_that_hangs_up_may_come_back master/decisions/subscriptions::a_framework_that_is_away_keeps_its_tasks_until_its_time_is_over
4.2 without failover_timeout leaving is the end | master/decisions/subscriptions::without_a_failover_timeout_leaving_is_the_end
4.3 removed frameworks are remembered, 50 of them | master/decisions/subscriptions::so_many_removed_frameworks_are_remembered_and_no_more
4.4 a timer of an older absence does nothing | master/decisions/subscriptions::a_timer_of_an_older_absence_does_nothing
4.5 TEARDOWN removes at once | master/agent_link/link::teardown_ends_the_framework_on_its_agent
5.1 ACCEPT | master/decisions/launching::a_launch_goes_to_the_agent_with_what_the_scheduler_left_out
5.2 DECLINE | master/decisions/launching::a_declined_offer_is_not_made_again_at_once
5.3 REVIVE and SUPPRESS by role | master/decisions/subscriptions::suppressed_roles_get_no_offers_until_revived master/decisions/subscriptions::revive_forgets_refusals
5.4 one wrong role drops the whole call | master/decisions/subscriptions::one_wrong_role_drops_the_whole_call
5.5 KILL of an unknown task is answered like reconciliation | master/decisions/updates::killing_what_is_unknown_is_answered_as_recorded
5.6 KILL carries a kill_policy | master/decisions/updates::a_kill_reaches_the_agent_with_its_policy
5.7 SHUTDOWN and MESSAGE reach the executor | master/decisions/updates::executors_are_told_and_heard master/agent_link/link::custom_executors_send_and_end
5.8 ACKNOWLEDGE | master/decisions/updates::only_the_acknowledgement_of_the_terminal_update_ends_the_task
5.9 RECONCILE | master/decisions/updates::reconciliation_without_names_tells_of_every_task_as_recorded
5.10 REQUEST is taken and does nothing | master/api/scheduler_api::calls_are_answered_202_with_the_recorded_headers
5.11 UPDATE_FRAMEWORK changes roles, suppressed roles and constraints | master/decisions/subscriptions::a_framework_may_change_its_roles_while_subscribed master/decisions/subscriptions::offer_constraints_keep_agents_out_until_they_are_changed
5.12 ACCEPT and DECLINE_INVERSE_OFFERS | master/decisions/maintenance::answers_are_shown_to_operators_and_asked_again_later
5.13 ACKNOWLEDGE_OPERATION_STATUS | master/decisions/operations::the_status_goes_to_the_framework_as_recorded_and_its_acknowledgement_to_the_agent
5.14 RECONCILE_OPERATIONS | master/decisions/operation_reports::reconciliation_says_what_is_known
5.15 refuse_seconds: 5 by default, at most a year, 0 for none | master/allocation/filters::refuse_seconds_falls_back_to_five_and_ends_at_a_year master/decisions/launching::declining_for_no_time_does_not_start_a_storm_of_offers
5.16 a filter is of framework, role and agent, and lets more pass | master/allocation/filters::a_refusal_is_of_one_framework_role_and_agent master/allocation/filters::a_refusal_blocks_the_same_and_less_but_not_more
5.17 a filter lasts one allocation interval at least | master/allocation/filters::a_refusal_lasts_at_least_one_allocation_interval
6.1 offers of one ACCEPT are valid, one agent's, one role's, named once | master/decisions/launching::offers_accepted_together_are_of_one_agent_and_each_named_once master/decisions/launching::an_offer_that_is_gone_loses_its_tasks
6.2 the reasons AGENT_REMOVED and AGENT_DISCONNECTED of an ACCEPT | none: offers go with their agent at once, so such an ACCEPT has invalid offers (6.1)
6.3 operations see what those before them left | master/decisions/operations::operations_and_launches_of_one_accept_see_what_was_done_before
6.4 a bad task does not stop its siblings, a bad one of a group stops all | master/decisions/launching::a_bad_task_is_answered_and_its_siblings_run master/decisions/launching_groups::one_fault_keeps_the_whole_group_from_running
6.5 what is unused is refused with the filter | master/decisions/launching::what_is_left_of_an_offer_is_refused_and_offered_again_later
6.6 an id on LAUNCH or LAUNCH_GROUP is TASK_ERROR | master/decisions/launching_groups::an_id_on_the_operation_is_refused_and_an_empty_group_is_nothing
6.7 each kind of operation | master/decisions/operations::the_recorded_session_of_a_framework_with_a_volume master/decisions/operations::a_volume_grows_and_shrinks_where_the_agent_can master/decisions/launching::operations_that_are_not_built_are_answered_not_dropped
6.8 what is missing in a task is filled in | master/decisions/launching::a_launch_goes_to_the_agent_with_what_the_scheduler_left_out
6.9 a health check without type gets one | master/decisions/launching::a_health_check_without_a_type_gets_the_one_its_body_shows
6.10 shell and argv commands | agent/launching/launch::a_shell_command_runs_in_the_shell_and_another_as_its_arguments_say
6.11 the order of validation | master/validation/validation::tasks_are_refused_for_mesos_reasons master/validation/validation::the_first_of_several_reasons_is_given
6.12 ids | mesos/ids::ids_are_single_path_components master/validation/validation::an_id_is_taken_while_its_task_lives_or_may_come_back
6.13 TASK_UNAUTHORIZED | master/decisions/permissions::a_task_runs_only_as_a_user_that_its_framework_may_use agent/decisions/permissions::a_task_that_its_framework_may_not_run_as_that_user_is_an_error
6.14 what an ExecutorInfo needs | master/validation/validation::an_executor_needs_its_command master/validation/validation::executors_are_checked_too
6.15 a running executor is not charged again | master/validation/validation::a_running_executor_is_not_charged_again_and_must_be_the_same master/decisions/launching::an_executor_is_booked_once_and_named_in_later_offers
6.16 limits: cpus and mem alone; in groups only with share_cgroups=false | master/validation/validation::limits_need_an_agent_that_knows_them master/decisions/launching_groups::one_fault_keeps_the_whole_group_from_running
6.17 shared volumes are offered while in use, and one copy serves every task of an ACCEPT | master/decisions/shared_volumes::a_volume_is_offered_while_tasks_of_two_frameworks_use_it master/decisions/shared_volumes::one_copy_serves_every_task_of_an_accept_and_of_a_group agent/decisions/shared_volumes::two_tasks_and_a_group_share_a_folder_while_they_run
6.18 only frameworks with SHARED_RESOURCES create them and are offered them | master/decisions/shared_volumes::only_frameworks_that_can_share_are_offered_it master/decisions/operations::what_mesos_refuses_is_refused_in_its_words
6.19 DESTROY of a volume in use is refused, and takes back offers of it | master/decisions/shared_volumes::destroy_is_refused_while_anyone_uses_it master/decisions/shared_volumes::destroy_takes_back_the_offers_that_others_have_of_it
6.20 RESERVE is not checked against quota; reservations count as consumed | master/decisions/roles::a_reservation_beyond_the_limit_is_made_and_counts
7.1 the order and form of events | conformance/mesos_master_sessions::a_frameworks_whole_life_is_told_as_a_real_master_told_it
7.2 the fields of an offer | master/decisions/launching::offers_look_as_recorded
7.3 a Resource in both reservation formats | mesos/resources::json_and_back_is_the_same_in_both_formats master/decisions/launching::a_framework_of_refined_reservations_is_offered_them_without_role
7.4 FAILURE of an agent and of an executor | master/decisions/agents::an_agent_that_does_not_answer_is_unreachable_and_may_return master/decisions/updates::executors_are_told_and_heard
7.5 the fields of a TaskStatus; a uuid only where an acknowledgement is wanted | master/decisions/updates::an_update_is_passed_on_as_it_came master/decisions/launching::task_errors_look_as_recorded
7.6 INVERSE_OFFERS and their end | master/decisions/maintenance::a_schedule_takes_offers_back_and_makes_new_ones_that_say_so master/decisions/maintenance::inverse_offers_go_with_their_agent
8.1 which states are terminal | master/decisions/updates::a_terminal_state_is_final
8.2 frameworks that are not PARTITION_AWARE see TASK_LOST | master/decisions/updates::a_task_we_do_not_know_is_unknown_or_gone
8.3 STARTING, RUNNING and the end, each acknowledged | agent/loop/agent::a_task_starts_runs_and_finishes_each_acknowledged
8.4 one stream a task, the head alone, again after 10 s, doubling to 10 min | agent/model/updates::an_update_without_acknowledgement_is_sent_again_after_10_s_doubling_to_10_minutes agent/model/updates::the_first_update_is_sent_at_once_and_the_second_waits_for_the_acknowledgement
8.5 what is not acknowledged survives a restart of the agent | agent/decisions/replay::acknowledged_updates_are_not_pending_and_the_rest_is_in_order
8.6 the latest state travels beside a waiting head | agent/model/updates::a_waiting_head_says_the_latest_state master/decisions/updates::the_latest_state_books_the_resources_while_an_older_one_is_told
8.7 a task stays until its end is acknowledged, its resources do not | master/decisions/updates::resources_are_free_at_the_terminal_state_and_the_task_stays_until_acknowledged
8.8 an acknowledgement for an agent that is away is dropped | master/decisions/updates::an_acknowledgement_for_an_agent_that_is_away_is_dropped
8.9 implicit reconciliation | master/decisions/updates::reconciliation_without_names_tells_of_every_task_as_recorded
8.10 explicit reconciliation | master/decisions/updates::reconciliation_tells_what_was_told_last_not_what_is_ahead master/decisions/updates::a_task_of_an_unreachable_agent_is_unreachable_since_then
8.11 nothing is said while the agent may come back | master/decisions/updates::nothing_is_said_of_a_task_that_may_come_back_with_its_agent
9.1 reasons travel under v1 names | mesos/messages::evolve_and_devolve_rename_agents_and_reasons
10.1 an agent is unreachable after 75 s of silence | master/agent_link/link::silence_makes_an_agent_unreachable_and_a_word_brings_it_back
10.2 agents of the registry have 10 min to come back | master/decisions/agents::agents_that_never_come_back_after_a_restart_are_unreachable
10.3 at most so many operators listen | master/views/operator_events::the_oldest_listener_makes_room
10.4 offers time out only when that is asked for | master/decisions/subscriptions::offers_time_out_when_that_is_asked_for
10.5 a change of the registry is durable before anybody hears of it, and all else continues | master/engine/registrar::while_a_write_takes_long_the_master_does_all_else master/engine/registrar::no_agent_hears_an_id_that_is_not_on_disk master/leadership::a_leader_goes_on_while_zookeeper_is_silent_and_answers_later_who_needs_it
10.6 changes asked for during a write go into the next one | master/registry/queue::changes_asked_for_during_a_write_go_into_the_next_one_together
10.7 an agent that is being given up, marked gone or admitted is not heard a second time | master/state/transitions::a_second_registration_while_the_first_is_stored_is_passed_over master/state/transitions::an_agent_that_is_being_given_up_is_as_it_was_until_that_is_stored master/state/transitions::an_agent_marked_gone_while_it_comes_back_stays_away
10.8 the registry forgets agents by age and count, every 15 min | master/decisions/registry_gc::an_agent_that_was_unreachable_for_two_weeks_is_forgotten_with_its_tasks master/decisions/registry_gc::the_newest_stay_where_there_are_too_many
10.9 a master that would give up too many agents after its start stops | master/agent_link/absences::a_master_that_would_give_up_too_many_stops_instead
10.10 what agents without MULTI_ROLE run is of their framework's role | master/decisions/agents::what_an_older_agent_runs_is_allocated_to_the_role_of_its_framework
"""

EXECUTORS = """
1.1 transport as of schedulers, without a stream id | agent/loop/executor_api::a_session_is_as_a_real_mesos_had_it agent/loop/executor_api::protobuf_is_spoken_too
1.2 the calls and events | agent/loop/executor_api::a_session_is_as_a_real_mesos_had_it
1.3 statuses of what is refused | agent/loop/executor_api::calls_that_are_refused_with_the_status_and_words_of_mesos
1.4 a second subscription closes the first | agent/loop/executor_api::a_second_subscription_closes_the_first
1.5 an executor that is ending hears SHUTDOWN | agent/decisions/hosting::a_subscription_to_an_ending_executor_is_answered_with_shutdown
1.6 a re-subscription brings what was not acknowledged, and names what was lost | agent/loop/executor_api::after_a_restart_the_executor_says_what_the_agent_missed
1.7 an executor that has had no task, and has none waiting, is ended | agent/decisions/hosting::a_group_that_was_not_handed_over_is_killed_whole_and_its_executor_with_it
2.1 the environment of an executor | agent/loop/executor_api::a_session_is_as_a_real_mesos_had_it agent/launching/launch::without_checkpointing_there_is_no_recovery
2.2 MESOS_SANDBOX and the working directory | agent/launching/launch::a_task_in_an_image_has_the_images_path_and_sees_its_sandbox_elsewhere
2.3 later variables win | agent/launching/task_limits::environment_precedence_and_the_user_are_as_flags_say agent/launching/launch::the_commands_own_environment_wins
2.4 a command task inherits its executor's environment | agent/launching/launch::the_environment_is_that_of_a_command_executors_task
2.5 tasks of a group have MESOS_CONTAINER_IP | executor/main::a_group_runs_one_task_is_killed_and_the_program_ends
2.6 MESOS_TASK_ID is never set | agent/launching/launch::the_environment_is_that_of_a_command_executors_task
3.1 the name, source and share of a command executor | agent/launching/launch::the_executors_name_shows_the_begin_of_the_command agent/launching/launch::the_executor_itself_has_a_tenth_of_a_cpu_and_32_mb
3.2 STARTING, RUNNING, the end in words | agent/live::endings_in_the_words_of_mesos agent/decisions/state::how_a_command_ends_is_told_in_the_words_of_mesos
3.3 what is an end of which state | agent/decisions/state::how_a_command_ends_is_told_in_the_words_of_mesos
3.4 max_completion_time | agent/decisions/kills::a_task_may_only_run_for_so_long agent/live::a_task_may_only_run_for_so_long
3.5 the grace of a kill: the event's, the task's, 3 s | agent/decisions/kills::the_grace_is_the_messages_else_the_tasks_else_three_seconds
3.6 TASK_KILLING for who knows it | agent/decisions/kills::a_framework_without_the_capability_is_not_told_of_killing
3.7 TERM to all processes, KILL after the grace | agent/live::a_task_that_ignores_term_is_killed_after_its_grace container/life/containerizer::daemons_and_those_that_ignore_term_are_gone_after_the_grace
3.8 killing again can only shorten the grace | agent/decisions/kills::killing_again_can_only_shorten_the_grace
3.9 a kill_policy raises the shutdown grace | agent/launching/launch::a_kill_policy_raises_the_shutdown_grace_shown
3.10 how long a command executor waits after the end | none: command tasks have no executor process here
4.1 an executor that does not subscribe in time is ended | agent/executors_live::an_executor_that_never_subscribes_is_ended agent/decisions/hosting::an_executor_that_does_not_subscribe_in_time_is_ended_and_its_task_told
4.2 a launch that fails says why | agent/loop/agent::a_containerizer_that_refuses_and_an_unknown_user agent/decisions/state::a_launch_that_fails_tells_why
4.3 an executor that ends takes its tasks along, and FAILURE | agent/decisions/hosting::the_end_of_an_executor_is_the_end_of_its_tasks_and_told_with_its_status
4.4 after the shutdown grace its container is ended | agent/executors_live::an_executor_ends_when_told_and_when_it_does_not_listen agent/decisions/hosting::a_shutdown_is_a_word_first_and_the_end_of_the_container_after_the_grace
4.5 the memory limit | agent/live::a_task_that_takes_too_much_memory agent/decisions/state::running_out_of_memory_names_the_limit
4.6 a kill before the executor exists | agent/loop/agent::a_kill_before_the_container_runs
4.7 limits of tasks add up to those of their executor, without end when one is | agent/launching/executor_size::limits_add_up_with_what_the_executor_and_the_others_have agent/launching/executor_size::one_without_end_is_enough agent/executors_live::limits_of_tasks_raise_those_of_their_executor
4.8 the disk of an executor and its tasks is the quota of its sandbox | agent/disk_live::an_executor_may_fill_what_it_and_its_tasks_have
4.9 an empty set of capabilities is none; capability_info and effective_capabilities exclude each other | agent/launching/task_limits::an_empty_message_requests_what_it_does_in_mesos agent/launching/task_limits::what_cannot_be_had_is_refused_in_words agent/settings_live::a_task_with_an_empty_set_of_capabilities_has_none
5.1 one container an executor, a nested one a task | agent/groups_live::a_group_shares_gpus_and_network_and_dies_together_over_a_restart_of_the_agent
5.2 launchers that can nest | none: there is one launcher, and it can
5.3 a task that fails takes its group along | executor/state::a_task_that_fails_takes_its_group_along_and_no_other agent/groups_live::one_executor_runs_several_groups_and_each_ends_for_itself
5.4 TERM, and KILL after 3 s | executor/state::a_kill_is_term_then_kill_and_a_repeated_one_can_only_shorten_the_grace
5.5 it ends when all is acknowledged, or a minute later | executor/state::without_the_last_acknowledgement_it_ends_after_a_minute
5.6 a task's sandbox is at tasks/<id> | agent/groups_live::checks_look_into_the_tasks_own_container
5.7 limits and URIs of its tasks | agent/groups_live::a_task_of_a_group_may_have_limits_and_uris_of_its_own
6.1 the numbers of a health check | mesos/checks::the_defaults_are_those_of_mesos
6.2 each change and failure is told, and so many end the task | mesos/checks::every_failure_is_told_and_the_last_of_so_many_kills_as_recorded agent/decisions/checking::a_sick_task_is_killed_and_told_as_recorded
6.3 failures count after the grace period | mesos/checks::failures_in_the_grace_period_do_not_count_until_the_first_success
6.4 HTTP 200 to 399 is healthy | mesos/checks::http_is_well_from_200_to_399
6.5 a CheckInfo tells and never kills | mesos/checks::a_check_tells_changes_only_and_begins_with_nothing_found
6.6 HTTP and TCP go to the loopback | mesos/checks::http_and_tcp_go_to_the_loopback
6.7 commands run in the task's container | agent/checks_live::commands_run_in_the_tasks_container_and_a_sick_task_is_killed_as_recorded
"""

OPERATORS = """
1.1 routes with and without the process id | master/api/operator_api::paths_answer_under_the_process_id_and_with_more_segments
1.2 .json endings are a switch | master/api/node_endpoints::paths_of_before_1_0_are_a_switch
1.3 the longest known prefix answers | master/api/operator_api::the_operator_api_answers_where_pymesos_looks_for_it
1.4 jsonp | master/api/operator_api::pages_from_elsewhere_may_ask_for_a_callback agent/api/operator_api::jsonp_wraps_the_answer
1.5 reads of one that does not lead are redirected; /redirect, /health | master/leadership::the_second_stands_by_and_goes_on_when_the_first_ends master/api/operator_api::endpoints_answer_in_the_recorded_shape
1.6 the routes of a master | master/api/operator_api::endpoints_answer_in_the_recorded_shape master/decisions/roles::the_older_endpoints_do_the_same
1.7 the routes of an agent | agent/api/operator_api::help_and_the_machines_numbers conformance/mesos_agent_answers::an_idle_agent_answers_as_the_recorded_one
1.8 api/v1/resource_provider, containerizer/debug, profiler | none: there are no resource providers, and no actors to look into
2.1 cpus, gpus, mem and disk are always there | mesos/resources::the_summary_always_shows_the_four_names
3.1 /version names dotted numbers | agent/api/operator_api::version_health_and_flags
4.1 the top of a master's /state | master/api/operator_api::endpoints_answer_in_the_recorded_shape
4.2 agents in it, and in /slaves with whole resources | master/decisions/operators_operations::slaves_and_get_agents_have_the_shape_of_the_recorded_ones
4.3 frameworks, tasks, executors and offers in it | master/api/operator_api::endpoints_answer_in_the_recorded_shape master/api/operator_api::numbers_of_a_running_task_add_up
4.4 /state-summary counts | master/api/operator_api::numbers_of_a_running_task_add_up
4.5 /tasks with limit, offset, order | master/api/operator_api::queries_narrow_the_answer
4.6 /roles with quota and what is used of it | master/decisions/roles::weights_and_quota_are_answered_as_recorded
5.1 an agent's /state | agent/api/operator_api::an_idle_agents_state_has_the_shape_of_the_real_one agent/api/operator_api::a_running_agents_state_has_the_shape_of_the_real_one
5.2 executors in it, with their directory | agent/loop/executor_api::what_the_state_shows_of_it_is_what_mesos_shows
6.1 the names of a sandbox | agent/api/operator_api::the_files_of_a_sandbox_by_each_of_its_names
6.2 browse | process/files::browsing_lists_entries_as_ls_would process/files::what_is_not_there_is_not_found
6.3 read: 64 KiB, -1, beyond the end | process/files::reading_from_an_offset process/files::one_read_returns_at_most_64_kib process/files::negative_numbers_are_refused
6.4 download | conformance/mesos_agent_answers::an_agent_with_tasks_answers_as_the_recorded_one
6.5 the logs | master/api/node_endpoints::the_log_is_read_from_where_one_likes_64_kib_at_a_time agent/live::its_log_is_a_file_that_its_state_names
6.6 what ended is collected by age, sooner on a full disk | agent/decisions/collecting::the_fuller_the_disk_the_sooner_as_mesos_computes_it agent/disk/collector::after_a_restart_what_ended_is_as_old_as_it_is_and_what_lives_stays agent/collection_live::what_ended_is_removed_and_no_longer_served_and_all_else_stays
7.1 /monitor/statistics | agent/live::the_containers_statistics_are_shown agent/api/operator_api::containers_and_statistics_name_the_executor
7.2 /containers, nested ones when asked for | agent/api/container_api::a_nested_container_is_launched_waited_for_killed_and_removed
8.1 a master's metrics | master/api/operator_api::metrics_have_mesos_names
8.2 those of each framework | master/api/operator_api::each_framework_has_its_own_metrics_even_after_its_end
8.3 an agent's metrics | agent/api/operator_api::metrics_have_every_number_of_an_agent_and_the_machine
8.4 timers have statistics | mesos/timers::statistics_are_of_all_runs_in_milliseconds
9.1 the reads of a master | master/api/operator_api::v1_calls_answer_in_the_recorded_shape master/api/operator_api::v1_answers_are_of_mesos_types
9.2 GET_STATE has all parts | master/api/operator_api::get_state_holds_all_parts
9.3 logging levels | master/api/node_endpoints::the_logging_level_changes_for_a_while
9.4 LIST_FILES and READ_FILE | master/api/node_endpoints::the_log_over_the_v1_calls
9.5 weights and quota | master/decisions/roles::weights_and_quota_are_answered_as_recorded master/decisions/roles::what_cannot_be_is_refused
9.6 reservations and volumes by operators | master/decisions/operators_operations::an_operator_takes_offers_back_that_stand_in_the_way_and_no_others master/decisions/operators_operations::an_operators_mistake_is_no_conflict
9.7 maintenance | master/decisions/maintenance::a_machine_goes_down_and_comes_up master/decisions/maintenance::operators_and_schedulers_see_what_was_recorded
9.8 drain, deactivate, reactivate | master/decisions/draining::drain_and_reactivate_over_the_wire master/decisions/draining::a_drained_agent_has_ended_its_tasks_and_their_ends_are_acknowledged
9.9 MARK_AGENT_GONE | conformance/mesos_master_sessions::an_agent_marked_gone_is_gone
9.10 TEARDOWN | master/api/operator_api::an_operator_may_tear_a_framework_down
9.11 the reads of an agent | conformance/mesos_agent_answers::an_agent_with_tasks_answers_as_the_recorded_one
9.12 SUBSCRIBE and its events | master/views/operator_events::the_stream_tells_all_that_happens_in_order master/views/operator_events::a_removed_frameworks_tasks_end_before_it_goes
9.13 64-bit numbers | mesos/messages::64_bit_integers_are_numbers
9.14 calls of resource providers | none: there are none; such a call is 501
9.15 how streams are negotiated | agent/api/container_api::forms_are_negotiated_as_mesos_does
9.16 ProcessIO frames | agent/api/container_api::a_session_streams_what_its_command_says
9.17 ATTACH_CONTAINER_INPUT | agent/api/container_api::input_ends_and_an_other_client_hears_the_same agent/api/container_api::a_shell_on_a_terminal_is_typed_into_resized_and_interrupted
9.18 LAUNCH_NESTED_CONTAINER_SESSION ends with its client | agent/api/container_api::a_session_ends_when_its_client_goes
9.19 LAUNCH, WAIT, KILL, REMOVE | agent/api/container_api::a_nested_container_is_launched_waited_for_killed_and_removed agent/api/container_api::what_cannot_be_launched_is_400_and_leaves_nothing
9.20 a standalone container | agent/api/container_api::a_standalone_container_has_gpus_of_its_own
10.1 the realms of a master, and what is open | master/api/access::every_endpoint_asks_in_the_realm_that_it_has_in_mesos master/api/access::reading_and_changing_are_closed_one_by_one
10.2 the realms of an agent, and what is open | agent/api/access::every_endpoint_asks_in_the_realm_that_it_has_in_mesos
10.3 an executor's token says which one it is, and is wanted from it | agent/api/access::an_executor_shows_the_token_that_it_was_given agent/decisions/permissions::an_executor_speaks_for_itself agent/api/authorization_table::every_executor_call_by_every_principal agent/access_live::a_task_group_runs_on_an_agent_that_asks_its_executor_who_it_is
10.4 how entities of a list match and allow | mesos/security/authorization::an_entity_matches_and_allows_as_in_mesos mesos/security/authorization::the_first_entry_that_matches_decides mesos/security/authorization::what_no_entry_is_about_is_as_permissive_says
10.5 a role ending in /% is all below it | mesos/security/authorization::a_role_with_a_percent_sign_stands_for_all_below_it_and_not_for_itself
10.6 what an operator needs leave for | master/decisions/permissions::each_call_of_an_operator_needs_leave_for_its_own_action master/decisions/permissions::who_may_end_a_framework_depends_on_whose_it_is master/decisions/permissions::operations_need_leave_for_the_role_or_for_whose_they_undo master/api/access::lists_say_who_may_do_what_over_every_door
10.7 an operator reserves as himself | master/decisions/permissions::an_operator_without_leave_reserves_nothing_and_one_must_reserve_as_oneself
10.8 a framework needs leave for its roles, an agent to register | master/decisions/permissions::a_framework_subscribes_only_with_roles_that_its_principal_may_have master/api/access::an_agent_without_leave_is_told_to_go
10.9 what somebody may not see is left out | master/decisions/permissions::frameworks_of_others_are_shown_nowhere master/decisions/permissions::roles_of_others_are_left_out_with_what_is_reserved_for_them master/decisions/permissions::events_about_what_somebody_may_not_see_do_not_reach_him agent/decisions/permissions::what_runs_as_somebody_else_is_left_out
10.10 containers and sandboxes belong to the user of their executor | agent/decisions/permissions::what_is_done_to_a_container_needs_leave_for_the_user_of_its_task agent/decisions/permissions::an_executor_does_what_it_must_below_its_own_container_and_nothing_else agent/api/access::lists_say_who_may_do_what_over_every_door
11.1 LIBPROCESS_SSL_* and their older names, defaults and what implies what | mesos/security/tls_settings::every_setting_is_read mesos/security/tls_settings::older_names_of_a_switch_do_the_same mesos/security/tls_settings::names_from_before_1_0_count_where_the_new_one_is_not_set mesos/security/tls_settings::clients_certificates_are_not_asked_for_without_verifying_servers
11.2 with TLS messages and HTTP are both behind it, and pids stay as they are | process/secure/tls::messages_and_http_are_both_behind_tls_on_the_one_port cluster/tls::an_agent_registers_and_comes_back_to_the_next_master
11.3 with downgrade a port takes both, and a link that failed is made without | process/secure/tls::with_downgrade_both_are_spoken_on_the_port_and_links_fall_back cluster/tls::while_a_cluster_changes_over_each_reaches_each
11.4 the two schemes of validating host names | process/secure/tls::whose_certificate_it_must_be_is_what_the_scheme_says mesos/security/tls_names::names_are_compared_to_the_letter
11.5 redirects leave the scheme to the client, URLs in offers say http | cluster/tls::the_leader_that_zookeeper_names_is_reached_over_tls_and_standbys_send_there_by_any_scheme cluster/tls::an_agent_registers_and_comes_back_to_the_next_master
11.6 an executor learns of TLS by its environment | executor/secure::a_group_runs_over_tls_with_certificates_at_both_ends agent/decisions/hosting::the_default_executor_alone_is_told_how_the_agent_speaks_tls
"""
