"""Every guard there is, whatever it guards."""

from __future__ import annotations

from .admission import ADMISSION
from .afar import AFAR
from .answers import ANSWERS
from .attempts import ATTEMPT, KEEPER, SUPERVISOR
from .doors import DOORS
from .fences import CLAUSES, SECOND_LINE
from .fleet import FLEET
from .isolation import ISOLATION
from .recovery import RECOVERY
from .retention import RETENTION
from .rows import ROWS
from .rules import CORE_RULES, RULES
from .service import SERVICE
from .shortcuts import SHORTCUTS
from .stores import STORES
from .sweeping import SWEEPING
from .transport import TRANSPORT
from .verify import VERIFY
from .worker import CHECKPOINTS, RUN

EVERY = [
    *CLAUSES,
    *ROWS,
    *RULES,
    *CORE_RULES,
    *RETENTION,
    *SHORTCUTS,
    *SECOND_LINE,
    *DOORS,
    *STORES,
    *TRANSPORT,
    *FLEET,
    *ANSWERS,
    *RECOVERY,
    *AFAR,
    *SERVICE,
    *VERIFY,
    *ADMISSION,
    *SWEEPING,
    *RUN,
    *CHECKPOINTS,
    *KEEPER,
    *ATTEMPT,
    *SUPERVISOR,
    *ISOLATION,
]
