"""The journey of an algorithm's author with `rcabench` 1.3.3.

    rcabench_new.py PROJECT-ID DATAPACK-NAME DATASET-ID VERSION-ID

RCABENCH_BASE_URL, RCABENCH_KEY_ID and RCABENCH_KEY_SECRET say where and who. One JSON object is printed: what was seen.
"""

import json
import sys
import time
import urllib.request

from rcabench.client import RCABenchClient
from rcabench.openapi.api.datasets_api import DatasetsApi
from rcabench.openapi.api.evaluations_api import EvaluationsApi
from rcabench.openapi.api.executions_api import ExecutionsApi
from rcabench.openapi.api.injections_api import InjectionsApi
from rcabench.openapi.api.projects_api import ProjectsApi
from rcabench.openapi.models.container_ref import ContainerRef
from rcabench.openapi.models.container_spec import ContainerSpec
from rcabench.openapi.models.dataset_ref import DatasetRef
from rcabench.openapi.models.evaluation_batch_evaluate_datapack_req import EvaluationBatchEvaluateDatapackReq
from rcabench.openapi.models.evaluation_batch_evaluate_dataset_req import EvaluationBatchEvaluateDatasetReq
from rcabench.openapi.models.evaluation_evaluate_datapack_spec import EvaluationEvaluateDatapackSpec
from rcabench.openapi.models.evaluation_evaluate_dataset_spec import EvaluationEvaluateDatasetSpec
from rcabench.openapi.models.execution_detector_result_item import ExecutionDetectorResultItem
from rcabench.openapi.models.execution_execution_spec import ExecutionExecutionSpec
from rcabench.openapi.models.execution_granularity_result_item import ExecutionGranularityResultItem
from rcabench.openapi.models.execution_manage_execution_label_req import ExecutionManageExecutionLabelReq
from rcabench.openapi.models.execution_submit_execution_req import ExecutionSubmitExecutionReq
from rcabench.openapi.models.execution_upload_detector_result_req import ExecutionUploadDetectorResultReq
from rcabench.openapi.models.execution_upload_granularity_result_req import ExecutionUploadGranularityResultReq
from rcabench.openapi.models.injection_guided_spec import InjectionGuidedSpec
from rcabench.openapi.models.injection_manage_injection_label_req import InjectionManageInjectionLabelReq
from rcabench.openapi.models.injection_submit_injection_req import InjectionSubmitInjectionReq
from rcabench.openapi.models.label_item import LabelItem

project, name, dataset, version = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
client = RCABenchClient()
api = client.get_client()
seen = {}

listed = ProjectsApi(api).list_project_injections(project_id=project, page=1, size=20).data
seen["total"] = listed.pagination.total
ours = next(item for item in listed.items if item.name == name)
detail = InjectionsApi(api).get_injection_by_id(id=ours.id).data
seen["injection"] = detail.to_dict()

token = api.configuration.api_key["BearerAuth"]
request = urllib.request.Request(f"{client.base_url}/api/v2/injections/{ours.id}/download")
request.add_header("Authorization", f"Bearer {token}")
with urllib.request.urlopen(request) as answer, open(f"{name}.zip", "wb") as file:
    file.write(answer.read())

executions = ExecutionsApi(api)


def submit(algorithm):
    spec = ExecutionExecutionSpec(algorithm=algorithm, datapack=name)
    body = ExecutionSubmitExecutionReq(project_name="default", specs=[spec], labels=[LabelItem(key="by", value="new")])
    answer = executions.run_algorithm(project_id=project, execution_submit_execution_req=body).data
    assert answer.group_id and answer.items[0].trace_id and answer.items[0].task_id
    return answer.items[0].additional_properties["execution_id"]


def ended(number):
    deadline = time.monotonic() + 60
    while True:
        execution = executions.get_execution_by_id(id=number).data
        if execution.state != "Initial" or time.monotonic() > deadline:
            return execution
        time.sleep(0.2)


seen["built_in"] = ended(submit(ContainerSpec(name="nsigma"))).to_dict()

number = submit(ContainerSpec(name="mine", version="1.0", payload={"remote": True}))
seen["waiting"] = executions.get_execution_by_id(id=number).data.state
results = [
    ExecutionGranularityResultItem(level="service", result="ts-basic-service", rank=2, confidence=0.25),
    ExecutionGranularityResultItem(level="service", result="ts-travel-service", rank=1, confidence=0.75),
]
upload = ExecutionUploadGranularityResultReq(duration=1.5, results=results)
receipt = executions.upload_localization_results(
    execution_id=number, execution_upload_granularity_result_req=upload
).data
seen["receipt"] = receipt.to_dict()
label = ExecutionManageExecutionLabelReq(add_labels=[LabelItem(key="note", value="first try")], remove_labels=["by"])
executions.update_execution_labels(id=number, execution_manage_execution_label_req=label)
seen["uploaded"] = executions.get_execution_by_id(id=number).data.to_dict()

evaluations = EvaluationsApi(api)
mine = ContainerRef(name="mine", version="1.0")
noted = [LabelItem(key="note", value="first try")]
questions = [
    EvaluationEvaluateDatapackSpec(algorithm=algorithm, datapack=datapack, filter_labels=labels)
    for algorithm, datapack, labels in [
        (mine, name, noted),
        (mine, name, [LabelItem(key="note", value="second try")]),
        (ContainerRef(name="nsigma"), name, None),
        (mine, "no-such-pack", None),
        (ContainerRef(name="nsgima"), name, None),
    ]
]
body = EvaluationBatchEvaluateDatapackReq(specs=questions)
answer = evaluations.evaluate_algorithm_on_datapacks(evaluation_batch_evaluate_datapack_req=body).data
seen["on_datapacks"] = answer.to_dict()
questions = [
    EvaluationEvaluateDatasetSpec(algorithm=ContainerRef(name=algorithm), dataset=DatasetRef(name="both"))
    for algorithm in ("mine", "pdiagnose")
]
body = EvaluationBatchEvaluateDatasetReq(specs=questions)
answer = evaluations.evaluate_algorithm_on_datasets(evaluation_batch_evaluate_dataset_req=body).data
seen["on_datasets"] = answer.to_dict()
archive = DatasetsApi(api).download_dataset_version(dataset_id=dataset, version_id=version)
seen["archive"] = {"size": len(archive), "is_zip": bytes(archive[:2]) == b"PK"}

number = submit(ContainerSpec(name="mine-detector", version="1.0", payload={"remote": True}))
row = ExecutionDetectorResultItem(
    span_name="GET /", issues='{"p99": {}}', abnormal_avg_duration=2.5, normal_avg_duration=0.5,
    abnormal_p99=3.0, normal_p99=1.0, abnormal_succ_rate=0.5, normal_succ_rate=1.0,
)
upload = ExecutionUploadDetectorResultReq(duration=0.5, results=[row])
receipt = executions.upload_detection_results(execution_id=number, execution_upload_detector_result_req=upload).data
seen["detector_receipt"] = receipt.to_dict()
seen["detected"] = executions.get_execution_by_id(id=number).data.to_dict()

label = InjectionManageInjectionLabelReq(add_labels=[LabelItem(key="seen-by", value="1.3.3")])
InjectionsApi(api).manage_injection_labels(id=ours.id, injection_manage_injection_label_req=label)

fault = InjectionGuidedSpec(
    system="ts0", system_type="ts", namespace="ts0", app="ts-travel-service", chaos_type="NetworkDelay",
    target_service="ts-basic-service", latency=2000, duration=1,
)
body = InjectionSubmitInjectionReq(
    pedestal=ContainerSpec(name="ts", version="1.0.0"),
    benchmark=ContainerSpec(name="clickhouse", version="1.0.0"),
    specs=[[fault]],
    algorithms=[ContainerSpec(name="random")],
    labels=[LabelItem(key="by", value="new")],
)
submitted = ProjectsApi(api).submit_project_fault_injection(project_id=project, injection_submit_injection_req=body).data
seen["submitted"] = submitted.to_dict()
print(json.dumps(seen))
