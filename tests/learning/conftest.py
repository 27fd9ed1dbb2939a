"""Runs that grow."""

import pytest

from tests.learning.growing import classes_life, facts_life


@pytest.fixture
def facts(config, tmp_path):
    """Facts in three tasks and two later ones."""
    return facts_life(config, tmp_path)


@pytest.fixture
def classes(shapes_config, tmp_path):
    """Classes in three tasks and two later ones."""
    return classes_life(shapes_config, tmp_path)


@pytest.fixture(params=["facts", "classes"])
def life(request):
    """Both."""
    return request.getfixturevalue(request.param)
