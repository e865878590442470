"""`planrun worker`, and the options that it shares with `planrun up`."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from planrun.cli.asking import Modules, Url
from planrun.config import STORE_VARIABLE, url_from
from planrun.core.errors import Invalid
from planrun.service import Overseer
from planrun.worker.options import WorkerOptions

DEFAULTS = WorkerOptions(modules=())


def _option(text: str, *, show_default: bool = True) -> Parameter:
    return Parameter(help=text, show_default=show_default)


def _repeated(name: str, text: str) -> Parameter:
    return Parameter(name=name, help=f"{text} Repeat it for more.", show_default=False)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WorkerFlags:
    """The options of one worker, as the shell spells them. Defaults are those of `WorkerOptions`."""

    slots: Annotated[int, _option("How many jobs it runs at once.")] = DEFAULTS.slots
    lease_s: Annotated[
        float | None,
        _option(
            "Seconds without a sign of this worker after which another one takes its jobs over; without it 60, or what "
            "the orchestrator says.",
            show_default=False,
        ),
    ] = DEFAULTS.lease_s
    name: Annotated[str, _option("What people call it; without it, its host and process.", show_default=False)] = (
        DEFAULTS.name
    )
    namespaces: Annotated[tuple[str, ...], _repeated("--namespace", "Whose jobs it runs.")] = DEFAULTS.namespaces
    capabilities: Annotated[
        tuple[str, ...], _repeated("--capability", "What this machine can do, beside what the modules find out.")
    ] = DEFAULTS.capabilities
    import_path: Annotated[
        tuple[Path, ...], _repeated("--import-path", "A folder to import from, before the current one.")
    ] = DEFAULTS.import_path
    scratch: Annotated[
        Path | None, _option("Folder for the jobs' scratch; without it, beside the ledger.", show_default=False)
    ] = None
    store: Annotated[
        str,
        Parameter(
            env_var=STORE_VARIABLE,
            help="Where results go: s3://BUCKET/PREFIX, or a folder (absolute path); without it, beside the ledger.",
            show_default=False,
        ),
    ] = DEFAULTS.store
    isolation: Annotated[str, _option("How surely a job's processes die: auto, or force full, subreaper or group.")] = (
        DEFAULTS.isolation
    )
    no_proof: Annotated[
        bool, _option("Take over only when a lease runs out, not when death is proven.", show_default=False)
    ] = not DEFAULTS.proof_of_death
    health: Annotated[str, _option("Command that must exit with 0 before work is taken.", show_default=False)] = (
        DEFAULTS.health
    )
    checkpoint_grace_s: Annotated[
        float, _option("On SIGTERM: seconds that a resumable job may take to leave a checkpoint.")
    ] = DEFAULTS.checkpoint_grace_s
    drain_grace_s: Annotated[float, _option("On SIGTERM: seconds that jobs may go on before they are handed back.")] = (
        DEFAULTS.drain_grace_s
    )
    dedup_size: Annotated[int, _option("How many ended attempts are remembered; 0: none.")] = DEFAULTS.dedup_size
    gc_grace_s: Annotated[float, _option("Seconds that files of lost attempts are kept.")] = DEFAULTS.gc_grace_s
    job_ttl_s: Annotated[float, _option("Seconds that ended jobs stay in the ledger before they are archived.")] = (
        DEFAULTS.job_ttl_s
    )
    ids_ttl_s: Annotated[float, _option("Seconds that the ids of archived jobs are still known.")] = DEFAULTS.ids_ttl_s
    disk_free_bytes_min: Annotated[int, _option("Bytes that always stay free on the scratch disk.")] = (
        DEFAULTS.disk_free_bytes_min
    )
    allow_input: Annotated[
        tuple[str, ...],
        _repeated("--allow-input", "Where inputs may come from: https://HOST/PATH, http://…, file:/FOLDER."),
    ] = DEFAULTS.allow_input
    input_bytes_max: Annotated[int, _option("Bytes of inputs that are fetched for one attempt at most.")] = (
        DEFAULTS.input_bytes_max
    )
    pass_environment: Annotated[
        tuple[str, ...], _repeated("--pass-environment", "An environment variable that job code may see.")
    ] = DEFAULTS.pass_environment

    def options(self, modules: tuple[str, ...]) -> WorkerOptions:
        """As the worker wants them.

        Raises:
            Invalid: No module, or an option that cannot be right.
        """
        if not modules:
            raise Invalid("name at least one MODULE with @job functions")
        return WorkerOptions(
            modules=modules,
            import_path=tuple(folder.absolute() for folder in self.import_path),
            namespaces=self.namespaces,
            name=self.name,
            slots=self.slots,
            lease_s=self.lease_s,
            capabilities=self.capabilities,
            scratch=None if self.scratch is None else self.scratch.absolute(),
            store=self.store,
            isolation=self.isolation,
            proof_of_death=not self.no_proof,
            dedup_size=self.dedup_size,
            checkpoint_grace_s=self.checkpoint_grace_s,
            drain_grace_s=self.drain_grace_s,
            health=self.health,
            gc_grace_s=self.gc_grace_s,
            job_ttl_s=self.job_ttl_s,
            ids_ttl_s=self.ids_ttl_s,
            disk_free_bytes_min=self.disk_free_bytes_min,
            allow_input=self.allow_input,
            input_bytes_max=self.input_bytes_max,
            pass_environment=self.pass_environment,
        )


def worker(*modules: Modules, flags: WorkerFlags = WorkerFlags(), url: Url = None) -> int:
    """Run jobs until SIGTERM or Ctrl-C, which hand every running job back.

    Exit code 0 after a clean stop, 70 if the worker is broken and should be started again.

    For example:

      planrun worker media.jobs --slots 2
      planrun worker media.jobs --capability gpu --health nvidia-smi
    """
    options = flags.options(modules)
    logging.basicConfig(format="planrun: %(message)s")
    logging.getLogger("planrun").setLevel(logging.INFO)

    # Running jobs loads a lot; `--help` and `planrun up` must not.
    from planrun.embed import Worker  # noqa: PLC0415

    told = {field.name: getattr(options, field.name) for field in fields(options)}
    worker = Worker(url_from(url), jobs=told.pop("modules"), namespace=told.pop("namespaces"), **told)
    return worker.run(Overseer.of(os.environ))
