"""The journey of an algorithm's author with `rcabench` 1.1.51.

    rcabench_old.py DATAPACK-NAME

RCABENCH_BASE_URL with RCABENCH_TOKEN, or with RCABENCH_USERNAME and RCABENCH_PASSWORD, say where and who. One JSON object is
printed: what was seen.
"""

import json
import sys
import time
import urllib.request

from rcabench.client.http_client import RCABenchClient
from rcabench.openapi.api.containers_api import ContainersApi
from rcabench.openapi.api.executions_api import ExecutionsApi
from rcabench.openapi.api.injections_api import InjectionsApi
from rcabench.openapi.api.projects_api import ProjectsApi
from rcabench.openapi.api.system_api import SystemApi
from rcabench.openapi.api.tasks_api import TasksApi
from rcabench.openapi.models.container_spec import ContainerSpec
from rcabench.openapi.models.container_type import ContainerType
from rcabench.openapi.models.create_project_req import CreateProjectReq
from rcabench.openapi.models.datapack_state import DatapackState
from rcabench.openapi.models.execution_spec import ExecutionSpec
from rcabench.openapi.models.granularity_result_item import GranularityResultItem
from rcabench.openapi.models.label_item import LabelItem
from rcabench.openapi.models.manage_injection_label_req import ManageInjectionLabelReq
from rcabench.openapi.models.search_injection_req import SearchInjectionReq
from rcabench.openapi.models.submit_execution_req import SubmitExecutionReq
from rcabench.openapi.models.upload_granularity_result_req import UploadGranularityResultReq

name = sys.argv[1]
client = RCABenchClient()
api = client.get_client()
seen = {}

seen["health"] = SystemApi(api).get_system_health().data.status
projects = ProjectsApi(api)
seen["projects"] = [project.name for project in projects.list_projects().data.items]
algorithms = ContainersApi(api).list_containers(type=ContainerType.Algorithm).data
seen["algorithms"] = [container.name for container in algorithms.items]
injections = InjectionsApi(api)
listed = injections.list_injections(state=DatapackState.DetectorSuccess).data
ours = next(item for item in listed.items if item.name == name)
seen["injection"] = injections.get_injection_by_id(id=ours.id).data.to_dict()
found = injections.search_injections(search=SearchInjectionReq(name_pattern=name[2:])).data
seen["found"] = [item.name for item in found.items]

token = api.configuration.api_key["BearerAuth"]
request = urllib.request.Request(f"{client.base_url}/api/v2/injections/{ours.id}/download")
request.add_header("Authorization", f"Bearer {token}")
with urllib.request.urlopen(request) as answer, open(f"{name}.zip", "wb") as file:
    file.write(answer.read())

executions = ExecutionsApi(api)


def submit(algorithm):
    spec = ExecutionSpec(algorithm=algorithm, datapack=name)
    body = SubmitExecutionReq(project_name="default", specs=[spec], labels=[LabelItem(key="by", value="old")])
    return executions.run_algorithm(request=body).data.items[0]


item = submit(ContainerSpec(name="baro", version="builtin"))
deadline = time.monotonic() + 60
while TasksApi(api).get_task_by_id(task_id=item.task_id).data.state != "Completed" and time.monotonic() < deadline:
    time.sleep(0.2)
seen["built_in"] = executions.get_execution_by_id(id=item.additional_properties["execution_id"]).data.to_dict()

item = submit(ContainerSpec(name="mine", version="0.9", payload={"remote": True}))
number = item.additional_properties["execution_id"]
results = [GranularityResultItem(level="service", result="ts-travel-service", rank=1, confidence=1)]
upload = UploadGranularityResultReq(duration=3, results=results)
seen["receipt"] = executions.upload_localization_results(execution_id=number, request=upload).data.to_dict()
seen["uploaded"] = executions.get_execution_by_id(id=number).data.to_dict()
seen["listed"] = [one.id for one in executions.list_executions(size=50).data.items]
manage = ManageInjectionLabelReq(add_labels=[LabelItem(key="seen-by", value="1.1.51")])
injections.manage_injection_labels(id=ours.id, manage=manage)
print(json.dumps(seen))
