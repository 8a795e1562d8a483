from django.apps import AppConfig


class BelfryTasksConfig(AppConfig):
    name = "belfry.django_tasks"
    label = "belfry_tasks"
