//! The launcher's responses. `packages/protocol` describes the same for the daemon, and the tests of
//! both read one file of examples.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fault::{Fault, Kind};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Destroyed {
    pub ok: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxList {
    pub sandboxes: Vec<ListedSandbox>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedSandbox {
    pub id: String,
    pub state: SandboxState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxState {
    Running,
    Paused,
    Dead,
    /// Its creation was never completed.
    Partial,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceList {
    pub workspaces: Vec<ListedWorkspace>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedWorkspace {
    pub id: String,
    pub bytes: u64,
}

/// Whether a workspace is gone, or else which sandboxes use it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestroyedWorkspace {
    pub destroyed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_use_by: Option<Vec<String>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepairedDevices {
    pub repaired: Vec<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checked {
    pub name: String,
    pub ok: bool,
    pub detail: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// A request that failed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    pub error: FailedStep,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedStep {
    /// The step of a create, or the command.
    pub step: String,
    pub kind: Kind,
    pub message: String,
}

/// The process for a request ended without an answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Died {
    pub died: Death,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Death {
    pub how: String,
    pub said: String,
}

impl Failed {
    pub fn at(step: &str, fault: &Fault) -> Self {
        Failed {
            error: FailedStep {
                step: step.to_owned(),
                kind: fault.kind(),
                message: fault.to_string(),
            },
        }
    }
}

/// The wire format. Serializing a response cannot fail.
pub fn value(answer: impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    use super::*;
    use crate::create;
    use crate::record::Record;
    use crate::spec::{
        CreateSpec, DestroyRequest, DestroyWorkspaceRequest, ListRequest, ListWorkspacesRequest,
        RepairDevicesRequest,
    };

    fn examples(section: &str) -> Vec<Value> {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../packages/protocol/fixtures/launcher.json"
        );
        let text = std::fs::read(path).expect("the fixtures are part of the project");
        let all: Value = serde_json::from_slice(&text).expect("the fixtures are JSON");
        let found = all[section].as_array().cloned().unwrap_or_default();
        assert!(found.len() > 3, "{path} has too few {section}");
        found
    }

    fn read<T: DeserializeOwned>(example: &Value, field: &str) -> T {
        serde_json::from_value(example[field].clone())
            .unwrap_or_else(|error| panic!("{example}: {error}"))
    }

    fn same<T: DeserializeOwned + Serialize>(example: &Value) {
        let answer: T = read(example, "answer");
        assert_eq!(value(answer), example["answer"]);
    }

    #[test]
    fn example_requests_are_parsed() {
        for example in examples("requests") {
            let checked = match example["command"].as_str() {
                Some("create") => {
                    read::<CreateSpec>(&example, "request").check(&create::step_names())
                }
                Some("destroy") => read::<DestroyRequest>(&example, "request").check(),
                Some("list") => read::<ListRequest>(&example, "request").check(),
                Some("list-workspaces") => {
                    read::<ListWorkspacesRequest>(&example, "request").check()
                }
                Some("destroy-workspace") => {
                    read::<DestroyWorkspaceRequest>(&example, "request").check()
                }
                Some("repair-devices") => read::<RepairDevicesRequest>(&example, "request").check(),
                other => panic!("an example of the unknown command {other:?}"),
            };
            assert!(checked.is_ok(), "{example}: {checked:?}");
        }
    }

    #[test]
    fn invalid_example_requests_are_refused() {
        for example in examples("refused") {
            let read: Result<CreateSpec, _> = serde_json::from_value(example["request"].clone());
            let refused = read.map_or(true, |spec| spec.check(&create::step_names()).is_err());
            assert!(refused, "{example}");
        }
    }

    #[test]
    fn responses_match_the_examples() {
        for example in examples("answers") {
            match example["command"].as_str() {
                Some("create") => same::<Record>(&example),
                Some("destroy") => same::<Destroyed>(&example),
                Some("list") => same::<SandboxList>(&example),
                Some("list-workspaces") => same::<WorkspaceList>(&example),
                Some("destroy-workspace") => same::<DestroyedWorkspace>(&example),
                Some("repair-devices") => same::<RepairedDevices>(&example),
                Some("check") => same::<Vec<Checked>>(&example),
                Some("steps") => {
                    assert_eq!(value(create::step_names()), example["answer"]);
                }
                other => panic!("an example of the unknown command {other:?}"),
            }
        }
    }

    #[test]
    fn failures_match_the_examples() {
        for example in examples("failures") {
            if example["answer"]["died"].is_object() {
                same::<Died>(&example);
            } else {
                same::<Failed>(&example);
            }
        }
    }
}
