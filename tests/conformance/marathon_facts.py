"""The facts of Marathon that ours is built to, one a line, and which tests show each; as in `mesos_facts.py`.

1 is what an app may say, 2 GPUs, 3 the API and deployments, 4 the command line. Sources: Marathon's RAML below
docs/docs/rest-api/public/api/v2, raml/AppConversion.scala, api/v2/validation/AppValidation.scala, GpuSchedulingBehavior.scala.
"""

MARATHON = """
1.1 an app with no more than an id and a command is 201, with every default filled in and a Marathon-Deployment-Id | marathon/api/apps::an_app_is_created marathon/definitions/app::the_smallest_app_gets_every_default
1.2 an app that exists is 409, without deployments | marathon/api/apps::an_app_that_exists_is_a_conflict_without_deployments
1.3 what is not JSON is 400 | marathon/api/apps::what_is_not_json
1.4 what is not an object, or nothing, is 400 | marathon/api/apps::what_is_not_an_object
1.5 an app without an id is 422 at /id | marathon/api/apps::invalid_apps conformance/marathon::what_is_refused_and_where
1.6 an id of upper case, underscores or hyphens at its ends is 422 | conformance/marathon::what_is_refused_and_where
1.7 an id may begin with versions and may not end in it | conformance/marathon::what_is_refused_and_where conformance/marathon::what_is_accepted_and_how_it_is_shown
1.8 the root is no id of an app | conformance/marathon::what_is_refused_and_where
1.9 numbers as text are 422 at their place | conformance/marathon::what_is_refused_and_where
1.10 cpus of 0 are refused | conformance/marathon::what_is_refused_and_where
1.11 cmd and args exclude each other | conformance/marathon::what_is_refused_and_where
1.12 there must be a command, arguments or an image | conformance/marathon::what_is_refused_and_where
1.13 a container of either type needs its image, or a command beside it | conformance/marathon::what_is_refused_and_where conformance/marathon::what_is_accepted_and_how_it_is_shown
1.14 a container with `docker` and no type is DOCKER | conformance/marathon::a_bridge_takes_any_host_port_and_docker_is_the_default_type marathon/definitions/app::a_container_with_docker_and_no_type_is_docker
1.15 docker.network is read in any case and becomes networks | conformance/marathon::what_is_accepted_and_how_it_is_shown
1.16 docker.network NONE is refused | conformance/marathon::what_is_refused_and_where
1.17 a mapping of a bridge without a host port gets hostPort 0 | conformance/marathon::a_bridge_takes_any_host_port_and_docker_is_the_default_type marathon/definitions/app::bridge_mappings_get_a_host_port
1.18 a container network needs a name or a default | conformance/marathon::what_is_refused_and_where
1.19 with two container networks a host port says whose it is | conformance/marathon::what_is_refused_and_where
1.20 ports become portDefinitions | conformance/marathon::what_is_accepted_and_how_it_is_shown
1.21 a port twice is refused | conformance/marathon::what_is_refused_and_where
1.22 uris and fetch exclude each other | conformance/marathon::what_is_refused_and_where
1.23 uris become fetch, and archives are unpacked | marathon/definitions/app::a_uri_is_unpacked_when_it_names_an_archive conformance/marathon::what_is_accepted_and_how_it_is_shown
1.24 acceptedResourceRoles are not empty, and roles the framework has | conformance/marathon::what_is_refused_and_where conformance/marathon::what_is_accepted_and_how_it_is_shown
1.25 constraints are refused at their place: a value for UNIQUE, none for MAX_PER, a bad expression, an unknown operator | conformance/marathon::what_is_refused_and_where
1.26 a check of a port that is not there is refused | conformance/marathon::what_is_refused_and_where
1.27 one MESOS_HTTP check at most | conformance/marathon::what_is_refused_and_where
1.28 readiness: timeout below interval, a port that is there, one check at most | conformance/marathon::what_is_refused_and_where
1.29 minimumHealthCapacity is 1 at most | conformance/marathon::what_is_refused_and_where
1.30 MARATHON_SINGLE_INSTANCE_APP means one instance at most | conformance/marathon::what_is_refused_and_where
1.31 inactiveAfterSeconds is not above expungeAfterSeconds | conformance/marathon::what_is_refused_and_where
1.32 resourceLimits are not below what is asked for, or unlimited | conformance/marathon::what_is_refused_and_where conformance/marathon::what_is_accepted_and_how_it_is_shown
1.33 unknown keys are taken and ignored | conformance/marathon::what_is_accepted_and_how_it_is_shown
1.34 apps that wait for one another are refused | marathon/api/groups::apps_that_wait_for_one_another_are_refused
1.35 relative dependencies become absolute | marathon/api/groups::dependencies_become_absolute conformance/marathon::what_is_accepted_and_how_it_is_shown
2.1 an app with a GPU is taken | marathon/api/apps::a_gpu_app_runs conformance/marathon::what_is_accepted_and_how_it_is_shown
2.2 without the feature gpu_resources it is 422 at / | conformance/marathon::without_the_feature_gpus_are_refused marathon/definitions/app::gpus_need_the_feature
2.3 GPUs need a container of type MESOS | marathon/api/apps::invalid_apps conformance/marathon::what_is_refused_and_where
2.4 an image in a MESOS container may have GPUs | conformance/marathon::what_is_accepted_and_how_it_is_shown
2.5 GPUs are whole and not negative; 1.0 is 1 | marathon/api/apps::invalid_apps marathon/definitions/app::a_whole_float_becomes_an_integer conformance/marathon::what_is_refused_and_where conformance/marathon::what_is_accepted_and_how_it_is_shown
2.6 a task knows its GPUs by MARATHON_APP_RESOURCE_GPUS, and its TaskInfo has them | marathon/api/apps::a_gpu_app_runs
2.7 restricted, an app without GPUs leaves agents with GPUs alone, but for its label | conformance/marathon::who_may_use_agents_with_gpus
2.8 the label restricted counts where the flag is unrestricted | conformance/marathon::who_may_use_agents_with_gpus
2.9 a label of another value leaves it to the flag | conformance/marathon::who_may_use_agents_with_gpus
2.10 a GPU app that fits nowhere shows InsufficientGpus and is not launched | marathon/api/apps::a_gpu_app_that_fits_nowhere_says_why
2.11 GPUs of two roles make one task | conformance/marathon::gpus_of_two_roles_make_one_task
2.12 of two apps and one GPU the second starts when the first is gone | marathon/api/apps::of_two_gpu_apps_and_one_gpu_the_second_starts_when_the_first_is_removed
2.13 a change of an app that fills its agent waits, unless it may end the old task first | conformance/marathon::a_change_of_a_full_gpu_agent_waits_unless_it_may_end_the_old_task_first marathon/decisions/blockers::an_upgrade_that_waits_for_its_own_gpus_is_named
2.14 what was reserved for a resident app does not change | conformance/marathon::a_resident_app_keeps_its_gpus marathon/decisions/residency::what_was_reserved_cannot_change
3.1 PUT creates with 201 and scales with 200 | marathon/api/apps::put_creates_and_then_scales
3.2 a change of a label is RestartApplication | marathon/api/apps::a_label_change_restarts
3.3 a locked app is 409 and names its deployment; force takes over | marathon/api/apps::a_locked_app_names_its_deployment
3.4 a deployment is rolled back (200), or left with force (202) | marathon/api/apps::a_deployment_is_rolled_back_or_left
3.5 a version goes back to it, and stands alone | marathon/api/apps::versions marathon_cli/commands/apps/app_change::a_version_goes_back_to_it
3.6 scale and wipe exclude each other | marathon/api/apps::scale_and_wipe_exclude_each_other
3.7 each end makes the next start wait longer, a kill does not, and DELETE of the delay ends it | marathon/api/apps::a_delay_can_be_taken_away marathon/api/apps::each_end_makes_the_next_start_wait_longer_but_not_that_of_a_kill
3.8 an unknown path is 404, or 500 strictly compatible | marathon/api/apps::an_unknown_path_is_not_found marathon/api/apps::strictly_compatible_it_is_an_error_of_the_server
3.9 deployments beyond the limit are 403 | marathon/api/apps::too_many_deployments
3.10 scaleBy rounds up, and a dry run changes nothing | marathon/api/groups::scale_by_rounds_up_and_a_dry_run_changes_nothing
3.11 events can be chosen by type; without Accept they are 405 | marathon/api/events::events
3.12 a leader killed in an upgrade is followed: the plan continues and nothing starts twice | marathon/engine/failover::the_leader_killed_in_the_middle_of_an_upgrade_is_followed_and_nothing_starts_twice marathon/service::killed_in_the_middle_of_an_upgrade_it_goes_on_and_starts_nothing_twice
3.13 a new process keeps tasks and forgets backoff | conformance/marathon::a_new_process_keeps_tasks_and_forgets_backoff
4.1 adding an app that exists says so and exits with 1 | marathon_cli/commands/apps/app::an_app_that_exists_is_refused
4.2 add on a terminal without a file is bad usage and does not wait | marathon_cli/main::add_without_a_file_on_a_terminal_is_bad_usage_and_does_not_wait
4.3 a dotted key reaches into what is there | marathon_cli/commands/apps/app_change::update_merges_deeply_and_sends_only_what_changes marathon_cli/document/properties::a_dotted_key_reaches_into_what_is_there
4.4 no deployments are an empty table | marathon_cli/commands/operate/cluster::no_deployments_is_an_empty_table
4.5 kill with scale lowers the count by as many | marathon/api/apps::kill_with_scale_lowers_the_count_by_as_many marathon_cli/commands/apps/app_change::kill_and_scale_lowers_instances_by_as_many
4.6 show prints every field, also unknown ones | marathon_cli/commands/apps/app::show_prints_every_field_also_unknown_ones
4.7 watching a deployment that is stopped is no success | marathon_cli/commands/operate/cluster::watching_a_deployment_that_is_stopped_is_no_success
4.8 a refusal is shown in the server's words | marathon_cli/commands/apps/app::a_refusal_is_shown_in_the_servers_words
"""
